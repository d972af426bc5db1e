// The driver of stompit: see docs/reference/client-drivers.md.
"use strict";
const stompit = require("stompit");
const { report, reportError, reportMessage, serve } = require("./driver_lines.js");

let client = null;
const received = [];
const transactions = {};
const subscriptions = {};

function listen(error, message) {
  if (error) return; // the connection's end, which the client reports too
  const pieces = [];
  message.on("data", (piece) => pieces.push(piece));
  message.on("end", () => {
    received.push(message);
    reportMessage({ ...message.headers }, Buffer.concat(pieces));
  });
}

const commands = {
  connect({ host, port, version, heart_beat, login, passcode, vhost }) {
    const connectHeaders = { host: vhost, login, passcode, "accept-version": version };
    if (version !== "1.0") connectHeaders["heart-beat"] = heart_beat.join(",");
    client = stompit.connect({ host, port, connectHeaders }, (error, connected) => {
      if (error) {
        reportError(error);
        report("disconnected", {});
        return;
      }
      connected.on("error", reportError);
      report("connected", { headers: { ...connected.headers } });
    });
    client.on("close", () => report("disconnected", {}));
  },
  subscribe({ destination, id, ack }) {
    subscriptions[id] = client.subscribe({ destination, id, ack }, listen);
  },
  unsubscribe({ id }) {
    subscriptions[id].unsubscribe();
  },
  send({ destination, bytes, headers, content_type, transaction }) {
    const all = { destination, ...headers };
    if (content_type) all["content-type"] = content_type;
    if (bytes.includes(0)) all["content-length"] = bytes.length; // stompit leaves it to the application
    const sender = transaction ? transactions[transaction] : client;
    sender.send(all).end(bytes);
  },
  ack({ message, transaction }) {
    client.ack(received[message - 1], transaction ? { transaction } : {});
  },
  nack({ message, transaction }) {
    client.nack(received[message - 1], transaction ? { transaction } : {});
  },
  begin({ transaction }) {
    transactions[transaction] = client.begin({ transaction });
  },
  commit({ transaction }) {
    transactions[transaction].commit();
  },
  abort({ transaction }) {
    transactions[transaction].abort();
  },
  disconnect() {
    client.disconnect((error) => error && reportError(error));
  },
};

serve("stompit", commands);
