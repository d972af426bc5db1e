// The driver of stompjs 2, by its overTCP: see docs/reference/client-drivers.md.
"use strict";
const Stomp = require("stompjs");
const { report, reportError, reportMessage, serve } = require("./driver_lines.js");

let client = null;
const received = [];
const subscriptions = {};

function listen(message) {
  received.push(message);
  reportMessage({ ...message.headers }, Buffer.from(message.body, "utf8"));
}

function ended(what) {
  if (what && what.command === "ERROR") {
    report("error", { headers: { ...what.headers }, body: what.body });
    return;
  }
  reportError(what);
  report("disconnected", {});
}

const commands = {
  connect({ host, port, heart_beat, login, passcode, vhost }) {
    client = Stomp.overTCP(host, port);
    client.debug = null;
    client.heartbeat.outgoing = heart_beat[0];
    client.heartbeat.incoming = heart_beat[1];
    client.connect({ login, passcode, host: vhost }, (frame) => report("connected", { headers: { ...frame.headers } }), ended);
  },
  subscribe({ destination, id, ack }) {
    subscriptions[id] = client.subscribe(destination, listen, { id, ack });
  },
  unsubscribe({ id }) {
    subscriptions[id].unsubscribe();
  },
  send({ destination, body, headers, content_type, transaction }) {
    const more = { ...(headers || {}) };
    if (content_type) more["content-type"] = content_type;
    if (transaction) more.transaction = transaction;
    if (body === undefined) throw new Error("a body is text");
    client.send(destination, more, body);
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

serve("stompjs", commands);
