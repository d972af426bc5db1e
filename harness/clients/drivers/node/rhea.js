// The driver of rhea: see docs/reference/client-drivers.md.
"use strict";
const rhea = require("rhea");
const { report, reportError, reportMessage, serve } = require("./driver_lines.js");

const outcomes = ["accepted", "rejected", "released", "modified"];
let connection = null;
const links = {};
const received = [];
const sent = new Map();

// rhea keeps its name for the link's events, which are reported for both directions.
for (const kind of ["sender", "receiver"]) {
  rhea.on(`${kind}_open`, (context) => report("link-open", { link: context[kind].name }));
  rhea.on(`${kind}_close`, (context) => report("link-closed", { link: context[kind].name }));
  rhea.on(`${kind}_error`, (context) => reportError(context[kind].error));
}
for (const outcome of outcomes) {
  rhea.on(outcome, ({ delivery }) => { delivery.reported = outcome; });
}
rhea.on("settled", ({ delivery }) => {
  report("settled", { number: sent.get(delivery), outcome: delivery.reported || "none" });
});
rhea.on("sender_draining", ({ sender }) => sender.set_drained(true));
rhea.on("connection_open", () => report("connected", {}));
rhea.on("connection_error", ({ connection: lost }) => reportError(lost.error));
rhea.on("protocol_error", reportError);
rhea.on("error", reportError);
rhea.on("connection_close", () => report("disconnected", {}));
rhea.on("disconnected", ({ error }) => {
  if (error) reportError(error);
  report("disconnected", {});
});
rhea.on("message", ({ delivery, message, receiver }) => {
  received.push(delivery);
  const body = message.body;
  reportMessage({ link: receiver.name }, Buffer.isBuffer(body.content) ? body.content : Buffer.from(body));
});

const commands = {
  connect({ host, port, idle_ms, max_frame, login, passcode }) {
    const limits = {};
    if (idle_ms) limits.idle_time_out = idle_ms;
    if (max_frame) limits.max_frame_size = max_frame;
    connection = rhea.connect({ host, port, username: login, password: passcode, reconnect: false, ...limits });
  },
  sender({ link, address, mode }) {
    const snd_settle_mode = { unsettled: 0, settled: 1 }[mode];
    links[link] = connection.open_sender({ name: link, target: { address }, snd_settle_mode });
  },
  receiver({ link, address, credit }) {
    const options = { name: link, source: { address }, credit_window: credit, autoaccept: false };
    links[link] = connection.open_receiver(options);
  },
  send({ link, bytes }) {
    const made = links[link].send({ body: rhea.message.data_section(bytes) });
    sent.set(made, sent.size + 1);
  },
  settle({ message, outcome }) {
    const delivery = received[message - 1];
    if (outcome === "accepted") delivery.accept();
    else if (outcome === "rejected") delivery.reject();
    else if (outcome === "released") delivery.release();
    else delivery.modified({ delivery_failed: true });
  },
  close_link({ link }) {
    links[link].close();
  },
  disconnect() {
    connection.close();
  },
};

serve("rhea", commands);
