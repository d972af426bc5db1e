// @cloudamqp/amqp-client 4.1.1 (npm): the client sends heartbeats only in reply to heartbeats.
//
// The server agrees on a heartbeat of one second and sends messages twice a second, so that it has no
// reason to send heartbeats. The client has no data to send and writes nothing, so a broker closes the
// connection. The same happens if one large message takes longer than two intervals to arrive.
//
// AMQP 0-9-1, rule about the heartbeat delay (tune-ok): "The client should start sending heartbeats after
// receiving a Connection.Tune method"; any octet from the server is a valid substitute for its heartbeat.
//
// Cause: src/amqp-base-client.ts#L705-L707 is the only place that sends a heartbeat.
// Run: npm install @cloudamqp/amqp-client@4.1.1 && node amqp-client.js-heartbeats.js
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
const deliver = method(1, 60, 60, 1, 99, ...long(0), ...long(1), 0, 0, 1, 113);
const message = Buffer.concat([deliver, frame(2, 1, ...short(60), ...short(0), ...long(0), ...long(1), ...short(0)), frame(3, 1, 120)]);

(async () => {
  const { AMQPClient } = require("@cloudamqp/amqp-client");
  let frames = 0;
  const port = await serve(4096, 1, (type, what, size, socket) => {
    frames += 1;
    if (what !== "60,20") return;
    frames = 0;
    setInterval(() => socket.write(message), 500);
    setTimeout(() => {
      console.log(`the client sent ${frames} frames in five seconds; it promised one a second`);
      process.exit(frames ? 0 : 1);
    }, 5000);
  });
  const client = new AMQPClient(`amqp://guest:guest@127.0.0.1:${port}/?heartbeat=1`);
  await client.connect();
  const channel = await client.channel();
  await channel.basicConsume("q", { noAck: true }, () => {});
})();
