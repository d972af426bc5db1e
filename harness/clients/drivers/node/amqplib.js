// The driver of amqplib, by its promises: see docs/reference/client-drivers.md.
"use strict";
const amqp = require("amqplib");
const { report, reportError, reportMessage, serve } = require("./driver_lines.js");

let connection = null;
const channels = {};
const published = {};
const received = [];

const commands = {
  async connect({ host, port, vhost, heartbeat, login, passcode }) {
    const where = { hostname: host, port, username: login, password: passcode, vhost: encodeURIComponent(vhost), heartbeat };
    try {
      connection = await amqp.connect(where, { noDelay: true });
    } catch (error) {
      reportError(error);
      report("disconnected", {});
      throw error;
    }
    connection.on("error", reportError);
    connection.on("close", () => report("disconnected", {}));
    connection.on("blocked", () => report("blocked", {}));
    connection.on("unblocked", () => report("unblocked", {}));
    report("connected", {});
  },
  // Confirm mode is chosen when a channel is made.
  async channel({ channel }) {
    const made = await connection.createConfirmChannel();
    channels[channel] = made;
    published[channel] = 0;
    made.on("error", reportError);
    made.on("close", () => report("channel-closed", { channel }));
    report("channel-open", { channel });
  },
  consume({ channel, queue, no_ack }) {
    const made = channels[channel];
    const listen = (message) => {
      if (message === null) {
        report("cancelled", { queue });
        return;
      }
      received.push([made, message]);
      reportMessage({ queue }, message.content);
    };
    return made.consume(queue, listen, { noAck: no_ack });
  },
  publish({ channel, queue, bytes }) {
    const number = ++published[channel];
    channels[channel].publish("", queue, bytes, {}, (error) => {
      report("confirmed", { number, ok: error === null });
    });
  },
  ack({ message, multiple = false }) {
    const [channel, one] = received[message - 1];
    channel.ack(one, multiple);
  },
  reject({ message }) {
    const [channel, one] = received[message - 1];
    channel.reject(one, false);
  },
  confirm() {},
  close_channel({ channel }) {
    channels[channel].close().catch(reportError);
  },
  disconnect() {
    connection.close().catch(reportError);
  },
};

serve("amqplib", commands);
