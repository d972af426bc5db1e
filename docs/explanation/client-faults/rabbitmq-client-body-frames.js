// rabbitmq-client 5.0.8 (npm): the client truncates a message whose body arrives in two small frames, and closes the connection.
//
// The server delivers 6 bytes as two body frames of 3. The application gets the first 3; then the client
// throws "unexpected AMQP body frame; this is a bug" and destroys the socket.
//
// AMQP 0-9-1, 4.2.6.2 The Content Body: "Any number of content body frames can follow; the content body
// payload is an opaque binary block that MUST be split into one or more frames" within frame-max; nothing
// says that all frames but the last must be full.
//
// Cause: src/Channel.ts#L347 computes the number of frames as ceil(bodySize / (frameMax - 8)).
// Run: npm install rabbitmq-client@5.0.8 && node rabbitmq-client-body-frames.js
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
const header = frame(2, 1, ...short(60), ...short(0), ...long(0), ...long(6), ...short(0));
const body = [frame(3, 1, ...Buffer.from("one")), frame(3, 1, ...Buffer.from("two"))];

(async () => {
  const { Connection } = require("rabbitmq-client");
  const port = await serve(4096, 0, (type, what, size, socket) => {
    if (what === "60,20") socket.write(Buffer.concat([deliver, header, ...body]));
  });
  const client = new Connection({ hostname: "127.0.0.1", port });
  client.on("error", (problem) => {
    console.log(`the connection is gone: ${problem.message}`);
  });
  const channel = await client.acquire();
  await channel.basicConsume({ queue: "q" }, (message) => {
    console.log(`got ${message.body}, of onetwo`);
    setTimeout(() => process.exit(String(message.body) === "onetwo" ? 0 : 1), 500);
  });
})();
