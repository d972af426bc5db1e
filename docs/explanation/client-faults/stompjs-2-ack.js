// stompjs 2.3.3 (npm): ack() and nack() name the wrong message.
//
// Two messages arrive in one chunk of data. The application acknowledges the first; ACK names the second. In
// client-individual mode the first stays unacknowledged and is delivered again; the second ack() names a message
// that is already settled, so brokers answer with ERROR.
//
// STOMP 1.1, ACK: "ACK has two REQUIRED headers: message-id, which MUST contain a value matching the
// message-id for the MESSAGE being acknowledged".
//
// Cause: lib/stomp.js#L283-L295: all closures for one chunk share the variable messageID.
// Run: npm install stompjs@2.3.3 && node stompjs-2-ack.js
"use strict";
const net = require("node:net");
const Stomp = require("stompjs");
const message = (id) => `MESSAGE\nsubscription:s\nmessage-id:${id}\ndestination:/queue/a\n\n${id}\0`;

const server = net.createServer((socket) => {
  socket.on("data", (data) => {
    const text = data.toString();
    if (text.startsWith("CONNECT")) socket.write("CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\0");
    if (text.startsWith("SUBSCRIBE")) socket.write(message("one") + message("two"));
    if (text.startsWith("ACK")) {
      console.log(`the application acknowledged one: ${text.match(/message-id:.*/)[0]}`);
      process.exit(text.includes("message-id:one") ? 0 : 1);
    }
  });
});
server.listen(0, "127.0.0.1", () => {
  const client = Stomp.overTCP("127.0.0.1", server.address().port);
  const got = [];
  client.connect({}, () => {
    client.subscribe("/queue/a", (frame) => got.push(frame) === 2 && got[0].ack(), { id: "s", ack: "client-individual" });
  }, console.error);
});
