// The driver of @stomp/stompjs in node, over TCP: see docs/reference/client-drivers.md.
"use strict";
const { Client, Versions } = require("@stomp/stompjs");
const { Socket, report, reportMessage, serve } = require("./driver_lines.js");

let client = null;
const received = [];
const transactions = {};
const subscriptions = {};

function listen(message) {
  received.push(message);
  reportMessage({ ...message.headers }, Buffer.from(message.binaryBody));
}

const commands = {
  connect({ host, port, version, heart_beat, login, passcode, vhost }) {
    client = new Client({
      webSocketFactory: () => new Socket(host, port),
      stompVersions: new Versions([version]),
      connectHeaders: { login, passcode, host: vhost },
      heartbeatOutgoing: heart_beat[0],
      heartbeatIncoming: heart_beat[1],
      reconnectDelay: 0,
      forceBinaryWSFrames: true,
    });
    client.onConnect = (frame) => report("connected", { headers: { ...frame.headers } });
    client.onStompError = (frame) => report("error", { headers: { ...frame.headers }, body: frame.body });
    client.onWebSocketClose = () => report("disconnected", {});
    client.onUnhandledReceipt = (frame) => report("receipt", { id: frame.headers["receipt-id"] });
    client.activate();
  },
  subscribe({ destination, id, ack }) {
    subscriptions[id] = client.subscribe(destination, listen, { id, ack });
  },
  unsubscribe({ id }) {
    subscriptions[id].unsubscribe();
  },
  send({ destination, body, base64, bytes, headers, content_type, transaction }) {
    const more = { ...(headers || {}) };
    if (content_type) more["content-type"] = content_type;
    if (transaction) more.transaction = transaction;
    const content = base64 === undefined ? { body } : { binaryBody: new Uint8Array(bytes) };
    client.publish({ destination, headers: more, ...content });
  },
  ack({ message, transaction }) {
    received[message - 1].ack(transaction ? { transaction } : {});
  },
  nack({ message, transaction }) {
    received[message - 1].nack(transaction ? { transaction } : {});
  },
  begin({ transaction }) {
    transactions[transaction] = client.begin(transaction);
  },
  commit({ transaction }) {
    transactions[transaction].commit();
  },
  abort({ transaction }) {
    transactions[transaction].abort();
  },
  disconnect() {
    client.deactivate();
  },
};

serve("@stomp/stompjs", commands);
