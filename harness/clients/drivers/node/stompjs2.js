// The driver of stompjs 2, by its overTCP: see docs/reference/client-drivers.md.
"use strict";
const Stomp = require("stompjs");
const { report, reportError, serve, stompWebsocket } = require("./driver_lines.js");

function ended(what) {
  if (what && what.command === "ERROR") {
    report("error", { headers: { ...what.headers }, body: what.body });
    return;
  }
  reportError(what);
  report("disconnected", {});
}

function connect({ host, port, heart_beat, login, passcode, vhost }) {
  const client = Stomp.overTCP(host, port);
  client.debug = null;
  client.heartbeat.outgoing = heart_beat[0];
  client.heartbeat.incoming = heart_beat[1];
  client.connect({ login, passcode, host: vhost }, (frame) => report("connected", { headers: { ...frame.headers } }), ended);
  return client;
}

serve("stompjs", stompWebsocket(connect, (client, to, body, headers) => client.send(to, headers, body)));
