// webstomp-client 1.2.6 (npm): a body with a NUL is cut off, although content-length is correct.
//
// STOMP 1.2, Header content-length: "If a content-length header is included, this number of octets MUST be
// read, regardless of whether or not there are NULL octets in the body."
//
// Cause: src/frame.js#L81 splits the data at every NUL before any header is read.
// Run: npm install webstomp-client@1.2.6 && node webstomp-client-content-length.js
"use strict";
// Stands in for a WebSocket: the members that the library uses.
const socket = { OPEN: 1, readyState: 0, send() {}, close() {} };
const client = require("webstomp-client").over(socket, { debug: false, heartbeat: false, protocols: ["v12.stomp"] });
const got = [];
client.connect({}, () => client.subscribe("/queue/a", (frame) => got.push(frame.body), { id: "s" }));
socket.onopen();
socket.onmessage({ data: "CONNECTED\nversion:1.2\n\n\0" });
socket.onmessage({ data: "MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/queue/a\ncontent-length:7\n\none\0two\0" });
console.log(`the application got ${JSON.stringify(got)}`);
process.exit(got[0] === "one\0two" ? 0 : 1);
