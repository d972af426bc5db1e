// The driver of webstomp-client in node, over TCP: see docs/reference/client-drivers.md.
"use strict";
const webstomp = require("webstomp-client");
const { Socket, report, serve, stompWebsocket } = require("./driver_lines.js");

// Messages of text: each has whole characters.
class TextSocket extends Socket {
  constructor(host, port) {
    super(host, port);
    this.OPEN = 1;
    this.socket.setEncoding("utf8");
    this.socket.removeAllListeners("data").on("data", (data) => this.onmessage({ data }));
    this.onerror = () => {};
  }
}

function connect({ host, port, version, heart_beat, login, passcode, vhost }) {
  const [outgoing, incoming] = heart_beat;
  const protocols = [`v${version.replace(".", "")}.stomp`];
  const client = webstomp.over(new TextSocket(host, port), { debug: false, heartbeat: { outgoing, incoming }, protocols });
  client.onreceipt = (frame) => report("receipt", { id: frame.headers["receipt-id"] });
  const connected = (frame) => report("connected", { headers: { ...frame.headers } });
  client.connect({ login, passcode, host: vhost }, connected, (what) => {
    if (what.command === "ERROR") report("error", { headers: { ...what.headers }, body: what.body });
    else report("disconnected", {});
  });
  return client;
}

serve("webstomp-client", stompWebsocket(connect, (client, to, body, headers) => client.send(to, body, headers)));
