// webstomp-client 1.2.6 (npm): frames whose lines end with CR LF are lost.
//
// STOMP 1.2, STOMP Frames: "followed by an end-of-line (EOL) which consists of an OPTIONAL carriage return
// (octet 13) followed by a REQUIRED line feed (octet 10)".
//
// Cause: src/frame.js#L39 looks for two line feeds as the end of the headers; CR LF CR LF has none.
// Run: npm install webstomp-client@1.2.6 && node webstomp-client-cr-lf.js
"use strict";
// Stands in for a WebSocket: the members that the library uses.
const socket = { OPEN: 1, readyState: 0, send() {}, close() {} };
const client = require("webstomp-client").over(socket, { debug: false, heartbeat: false, protocols: ["v12.stomp"] });
const got = [];
client.connect({}, () => client.subscribe("/queue/a", (frame) => got.push(frame.body), { id: "s" }));
socket.onopen();
socket.onmessage({ data: "CONNECTED\nversion:1.2\n\n\0" });
socket.onmessage({ data: "MESSAGE\r\nsubscription:s\r\nmessage-id:1\r\ndestination:/queue/a\r\n\r\nhello\0" });
console.log(`the application got ${JSON.stringify(got)}`);
process.exit(got[0] === "hello" ? 0 : 1);
