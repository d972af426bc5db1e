// The driver of @cloudamqp/amqp-client over TCP: see docs/reference/client-drivers.md.
"use strict";
const { AMQPClient } = require("@cloudamqp/amqp-client");
const { report, reportError, reportMessage, serve } = require("./driver_lines.js");

let client = null;
const channels = {};
const confirming = new Set();
const published = {};
const received = [];

const commands = {
  async connect({ host, port, vhost, heartbeat, login, passcode }) {
    const password = encodeURIComponent(passcode);
    client = new AMQPClient(`amqp://${login}:${password}@${host}:${port}/${encodeURIComponent(vhost)}?heartbeat=${heartbeat}`);
    client.onerror = reportError;
    client.ondisconnect = (error) => {
      if (error) reportError(error);
      report("disconnected", {});
    };
    client.onblocked = () => report("blocked", {});
    client.onunblocked = () => report("unblocked", {});
    try {
      await client.connect();
    } catch (error) {
      reportError(error);
      report("disconnected", {});
      throw error;
    }
    report("connected", {});
  },
  async channel({ channel }) {
    const made = await client.channel();
    channels[channel] = made;
    published[channel] = 0;
    made.onerror = (reason) => {
      reportError(reason);
      report("channel-closed", { channel });
    };
    report("channel-open", { channel });
  },
  async consume({ channel, queue, no_ack }) {
    const consumer = await channels[channel].basicConsume(queue, { noAck: no_ack }, (message) => {
      received.push(message);
      reportMessage({ queue }, Buffer.from(message.body));
    });
    consumer.wait().catch(() => report("cancelled", { queue }));
  },
  publish({ channel, queue, bytes }) {
    const number = ++published[channel];
    const told = (ok) => confirming.has(channel) && report("confirmed", { number, ok });
    channels[channel].basicPublish("", queue, bytes).then(() => told(true), () => told(false));
  },
  ack({ message, multiple = false }) {
    return received[message - 1].ack(multiple);
  },
  reject({ message }) {
    return received[message - 1].reject(false);
  },
  async confirm({ channel }) {
    await channels[channel].confirmSelect();
    confirming.add(channel);
  },
  close_channel({ channel }) {
    channels[channel].close().then(() => report("channel-closed", { channel }), reportError);
  },
  disconnect() {
    client.close().then(() => report("disconnected", {}), reportError);
  },
};

serve("@cloudamqp/amqp-client", commands);
