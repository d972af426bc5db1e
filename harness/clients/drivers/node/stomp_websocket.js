// The drivers of stompjs 2 and webstomp-client have this in common: both libraries were made from stomp-websocket.
"use strict";
const { report, reportMessage } = require("./driver_lines.js");

let client = null;
const received = [];
const subscriptions = {};

function listen(message) {
  received.push(message);
  reportMessage({ ...message.headers }, Buffer.from(message.body, "utf8"));
}

// "connect" begins to connect a client and returns it; "send" knows the order of its arguments.
function commands(connect, send) {
  return {
    connect(asked) {
      client = connect(asked);
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
      send(client, destination, body, more);
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
}

module.exports = { commands };
