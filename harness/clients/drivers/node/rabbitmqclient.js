// The driver of rabbitmq-client: see docs/reference/client-drivers.md.
"use strict";
const { Connection } = require("rabbitmq-client");
const { report, reportError, reportMessage, serve } = require("./driver_lines.js");

const NEVER = 2 ** 30; // the library always connects again: so late that no trial sees it

let connection = null;
const channels = {};
const confirming = new Set();
const published = {};
const received = [];

const commands = {
  connect({ host, port, vhost, heartbeat, login, passcode }) {
    const times = { heartbeat, retryLow: NEVER, retryHigh: NEVER };
    connection = new Connection({ hostname: host, port, username: login, password: passcode, vhost, noDelay: true, ...times });
    connection.on("connection", () => report("connected", {}));
    connection.on("connection.blocked", () => report("blocked", {}));
    connection.on("connection.unblocked", () => report("unblocked", {}));
    connection.on("error", (problem) => {
      reportError(problem);
      if (!connection.ready) report("disconnected", {});
    });
  },
  async channel({ channel }) {
    const made = await connection.acquire({ emitErrorsFromChannel: true });
    channels[channel] = made;
    published[channel] = 0;
    made.on("error", reportError);
    made.on("close", () => report("channel-closed", { channel }));
    report("channel-open", { channel });
  },
  async consume({ channel, queue, no_ack }) {
    const made = channels[channel];
    const listen = (message) => {
      received.push([made, message]);
      reportMessage({ queue }, message.body);
    };
    const { consumerTag } = await made.basicConsume({ queue, noAck: no_ack }, listen);
    made.on("basic.cancel", (tag) => tag === consumerTag && report("cancelled", { queue }));
  },
  publish({ channel, queue, bytes }) {
    const number = ++published[channel];
    const told = (ok) => confirming.has(channel) && report("confirmed", { number, ok });
    channels[channel].basicPublish({ routingKey: queue }, bytes).then(() => told(true), () => told(false));
  },
  ack({ message, multiple = false }) {
    const [made, one] = received[message - 1];
    made.basicAck({ deliveryTag: one.deliveryTag, multiple });
  },
  reject({ message }) {
    const [made, one] = received[message - 1];
    made.basicNack({ deliveryTag: one.deliveryTag, requeue: false });
  },
  async confirm({ channel }) {
    await channels[channel].confirmSelect();
    confirming.add(channel);
  },
  close_channel({ channel }) {
    channels[channel].close();
  },
  // It waits for its channels, which the application has to close.
  disconnect() {
    const closed = Promise.all(Object.values(channels).map((channel) => channel.close()));
    closed.then(() => connection.close()).then(() => report("disconnected", {}), reportError);
  },
};

serve("rabbitmq-client", commands);
