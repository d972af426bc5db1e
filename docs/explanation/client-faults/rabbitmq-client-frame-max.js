// rabbitmq-client 5.0.8 (npm): the client sends frames larger than the server allows.
//
// The server's tune says frame-max 4096. The client agrees in tune-ok, and then publishes a body of 5,000
// bytes in one frame of 5,008.
//
// AMQP 0-9-1, 1.4.2.6 connection.tune-ok: "The largest frame that the peer will accept" (frame-max). Brokers
// close such a connection with 501 FRAME_ERROR.
//
// Cause: src/Channel.ts#L145 uses conn._opt.frameMax, the application's option (8192), not the agreed value.
// Run: npm install rabbitmq-client@5.0.8 && node rabbitmq-client-frame-max.js
"use strict";
const net = require("node:net");
const short = (n) => [n >> 8, n & 255];
const long = (n) => [0, 0, ...short(n)];
const words = (text) => [...long(text.length), ...Buffer.from(text)];
const frame = (type, channel, ...data) => Buffer.from([type, ...short(channel), ...long(data.length), ...data, 206]);
const method = (channel, group, id, ...data) => frame(1, channel, ...short(group), ...short(id), ...data);

// A server that sends the answers a client needs; "seen" gets each frame that arrives.
function serve(frameMax, heartbeat, seen) {
  const answers = {
    "10,11": () => method(0, 10, 30, ...short(0), ...long(frameMax), ...short(heartbeat)),
    "10,40": () => method(0, 10, 41, 0),
    "20,10": (channel) => method(channel, 20, 11, ...long(0)),
    "60,20": (channel) => method(channel, 60, 21, 1, 99),
  };
  const server = net.createServer((socket) => {
    let held = Buffer.alloc(0);
    let begun = false;
    socket.on("error", () => {});
    socket.on("data", (data) => {
      held = Buffer.concat([held, data]);
      if (!begun) {
        begun = true;
        held = held.subarray(8);
        socket.write(method(0, 10, 10, 0, 9, ...long(0), ...words("PLAIN"), ...words("en_US")));
      }
      while (held.length >= 8 && held.length >= 8 + held.readUInt32BE(3)) {
        const size = 8 + held.readUInt32BE(3);
        const [type, channel] = [held[0], held.readUInt16BE(1)];
        const what = type === 1 ? `${held.readUInt16BE(7)},${held.readUInt16BE(9)}` : "";
        if (answers[what]) socket.write(answers[what](channel));
        seen(type, what, size, socket);
        held = held.subarray(size);
      }
    });
  });
  return new Promise((ready) => server.listen(0, "127.0.0.1", () => ready(server.address().port)));
}

(async () => {
  const { Connection } = require("rabbitmq-client");
  const port = await serve(4096, 0, (type, what, size) => {
    if (type !== 3) return;
    console.log(`a frame of ${size} bytes; agreed: 4096`);
    process.exit(size > 4096 ? 1 : 0);
  });
  const client = new Connection({ hostname: "127.0.0.1", port });
  client.on("error", console.error);
  const channel = await client.acquire();
  await channel.basicPublish({ routingKey: "q" }, Buffer.alloc(5000));
})();
