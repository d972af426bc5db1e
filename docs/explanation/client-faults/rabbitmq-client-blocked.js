// rabbitmq-client 5.0.8 (npm): a client that the server has blocked sends no heartbeats.
//
// The server agrees on a heartbeat of one second and sends connection.blocked. From then on the client
// writes nothing, so a server closes the connection after two intervals: an alarm of a few minutes disconnects
// every publisher.
//
// AMQP 0-9-1, 4.2.7 Heartbeat Frames: peers send heartbeats when they have nothing else to send;
// connection.blocked (RabbitMQ) asks a client not to publish, and says nothing about heartbeats.
//
// Cause: src/Connection.ts#L532 corks the whole socket, and #L481 then sends no heartbeat.
// Run: npm install rabbitmq-client@5.0.8 && node rabbitmq-client-blocked.js
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
  let beats = 0;
  const port = await serve(4096, 1, (type, what, size, socket) => {
    if (type === 8) beats += 1;
    if (what !== "10,40") return;
    setInterval(() => socket.write(frame(8, 0)), 500);
    setTimeout(() => {
      console.log(`${beats} heartbeats in two seconds before it was blocked`);
      beats = 0;
      socket.write(method(0, 10, 60, 5, ...Buffer.from("alarm")));
    }, 2000);
    setTimeout(() => {
      console.log(`${beats} heartbeats in four seconds while it was blocked`);
      process.exit(beats > 2 ? 0 : 1);
    }, 6000);
  });
  new Connection({ hostname: "127.0.0.1", port, heartbeat: 1 }).on("error", console.error);
})();
