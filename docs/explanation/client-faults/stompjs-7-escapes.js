// @stomp/stompjs 7.5.0 (npm): an escaped backslash before an n becomes a line feed.
//
// A header has the value a, backslash, n (a Windows path, for instance). The server writes it as STOMP 1.2
// requires, a\\n. The application gets a, backslash, line feed.
//
// STOMP 1.2, Value Encoding: "\\ (octet 92 and 92) translates to \ (octet 92)".
//
// Cause: src/frame-impl.ts#L237-L243: the four escapes are replaced one after the other, so the second
// half of an escaped backslash is read again as the start of \n.
// Run: npm install @stomp/stompjs@7.5.0 && node stompjs-7-escapes.js
"use strict";
const { Client } = require("@stomp/stompjs");
// Stands in for a WebSocket: the members that the library uses.
const socket = {
  url: "",
  readyState: 1,
  send(frame) {
    if (frame.startsWith("CONNECT")) setTimeout(() => socket.onmessage({ data: "CONNECTED\nversion:1.2\n\n\0" }));
  },
  close() {},
};
const client = new Client({ webSocketFactory: () => socket, reconnectDelay: 0, heartbeatIncoming: 0, heartbeatOutgoing: 0 });
client.onConnect = () => {
  client.subscribe("/queue/a", (message) => {
    console.log(`path is ${JSON.stringify(message.headers.path)}; sent: ${JSON.stringify("C:\\new")}`);
    process.exit(message.headers.path === "C:\\new" ? 0 : 1);
  }, { id: "s" });
  setTimeout(() => socket.onmessage({ data: message }));
};
const message = "MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/queue/a\npath:C\\c\\\\new\n\nx\0";
client.activate();
