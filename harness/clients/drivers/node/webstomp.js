// The driver of webstomp-client in node, over TCP: see docs/reference/client-drivers.md.
"use strict";
const webstomp = require("webstomp-client");
const { Socket, report, reportMessage, serve } = require("./driver_lines.js");

let client = null;
const received = [];
const subscriptions = {};

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

function listen(message) {
  received.push(message);
  reportMessage({ ...message.headers }, Buffer.from(message.body, "utf8"));
}

const commands = {
  connect({ host, port, version, heart_beat, login, passcode, vhost }) {
    const [outgoing, incoming] = heart_beat;
    const protocols = [`v${version.replace(".", "")}.stomp`];
    client = webstomp.over(new TextSocket(host, port), { debug: false, heartbeat: { outgoing, incoming }, protocols });
    client.onreceipt = (frame) => report("receipt", { id: frame.headers["receipt-id"] });
    const connected = (frame) => report("connected", { headers: { ...frame.headers } });
    client.connect({ login, passcode, host: vhost }, connected, (what) => {
      if (what.command === "ERROR") report("error", { headers: { ...what.headers }, body: what.body });
      else report("disconnected", {});
    });
  },
  subscribe({ destination, id, ack }) {
    subscriptions[id] = client.subscribe(destination, listen, { id, ack });
  },
  unsubscribe({ id }) {
    subscriptions[id].unsubscribe();
  },
  send({ destination, body, headers, content_type, transaction }) {
    const more = { ...headers };
    if (content_type) more["content-type"] = content_type;
    if (transaction) more.transaction = transaction;
    if (body === undefined) throw new Error("a body is text");
    client.send(destination, body, more);
  },
  ack({ message, transaction }) {
    received[message - 1].ack(transaction ? { transaction } : {});
  },
  nack({ message, transaction }) {
    received[message - 1].nack(transaction ? { transaction } : {});
  },
  begin({ transaction }) {
    client.begin(transaction);
  },
  commit({ transaction }) {
    client.commit(transaction);
  },
  abort({ transaction }) {
    client.abort(transaction);
  },
  disconnect() {
    client.disconnect(() => report("disconnected", {}));
  },
};

serve("webstomp-client", commands);
