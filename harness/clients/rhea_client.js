// Does what its standard input asks for, one JSON object a line: {"what": "…", "about": {…}}, and tells on its standard
// output what happened: {"step": "…", "detail": {…}}. It ends when its input ends. rhea.py is its other end.
"use strict";

const readline = require("readline");
const rhea = require("rhea");

const container = rhea.create_container();
const links = {};
const held = [];
let connection;

function say(step, detail) {
  process.stdout.write(JSON.stringify({ step, detail: detail || {} }) + "\n");
}

function condition(error) {
  return error ? { condition: error.condition || null, description: error.description || String(error) } : {};
}

// Octets travel as {"octets": "…"} in hexadecimal, in both directions.
function inwards(value) {
  return value && value.octets !== undefined ? Buffer.from(value.octets, "hex") : value;
}

function outwards(value) {
  if (Buffer.isBuffer(value)) return { octets: value.toString("hex") };
  if (value && value.typecode === 0x75) return { octets: value.content.toString("hex"), section: "data" };
  return value === undefined ? null : value;
}

for (const name of ["connection_open", "connection_close", "session_open", "session_close", "session_error"]) {
  container.on(name, () => say(name));
}
container.on("connection_error", (context) => say("connection_error", condition(context.connection.error)));
container.on("protocol_error", (error) => say("protocol_error", condition(error)));
container.on("disconnected", (context) => say("disconnected", condition(context.error)));
for (const side of ["sender", "receiver"]) {
  for (const what of ["open", "close", "error"]) {
    container.on(`${side}_${what}`, (context) => {
      const link = context[side];
      say(`${side}_${what}`, { link: link.name, ...condition(link.error) });
    });
  }
}
container.on("sendable", (context) => say("sendable", { link: context.sender.name, credit: context.sender.credit }));
for (const outcome of ["accepted", "released", "rejected", "modified", "settled"]) {
  container.on(outcome, (context) => say(outcome, { link: context.delivery.link.name, id: context.delivery.id }));
}
container.on("receiver_drained", (context) =>
  say("receiver_drained", { link: context.receiver.name, credit: context.receiver.credit }),
);
container.on("message", (context) => {
  const { message, delivery, receiver } = context;
  held.push(delivery);
  say("message", {
    link: receiver.name,
    held: held.length - 1,
    body: outwards(message.body),
    subject: message.subject === undefined ? null : message.subject,
    message_id: message.message_id === undefined ? null : message.message_id,
    application_properties: message.application_properties || {},
    durable: Boolean(message.durable),
    delivery_count: message.delivery_count || 0,
    settled: Boolean(delivery.remote_settled),
    credit: receiver.credit,
  });
});

const actions = {
  connect: (about) => {
    connection = container.connect({ reconnect: false, ...about });
  },
  sender: ({ name, address, capabilities, settled }) => {
    const options = { name, target: { address, capabilities }, autosettle: true, snd_settle_mode: settled ? 1 : 0 };
    links[name] = connection.open_sender(options);
  },
  receiver: ({ name, address, capabilities, credit }) => {
    // credit_window 0: rhea gives none of its own accord. Nothing is accepted unasked.
    const options = { name, source: { address, capabilities }, credit_window: 0, autoaccept: false, autosettle: false };
    links[name] = connection.open_receiver(options);
    if (credit) links[name].add_credit(credit);
  },
  credit: ({ link, count }) => links[link].add_credit(count),
  drain: ({ link }) => links[link].drain_credit(),
  send: ({ link, message }) => {
    const body = inwards(message.body);
    const framed = Buffer.isBuffer(body) ? rhea.message.data_section(body) : body;
    const delivery = links[link].send({ ...message, body: framed });
    say("sent", { link, id: delivery.id });
  },
  settle: ({ number, outcome, about }) => {
    const delivery = held[number];
    switch (outcome) {
      case "accepted":
        delivery.accept();
        break;
      case "released":
        delivery.release();
        break;
      case "modified":
        delivery.modified(about);
        break;
      case "rejected":
        delivery.reject(about);
        break;
      default:
        throw new Error(`no outcome ${outcome}`);
    }
  },
  detach: ({ link }) => links[link].close(),
  close: () => connection.close(),
};

const lines = readline.createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const { what, about } = JSON.parse(line);
  try {
    actions[what](about || {});
  } catch (problem) {
    say("failed", { what, description: String(problem) });
  }
});
lines.on("close", () => process.exit(0));
say("loaded", { version: require("rhea/package.json").version, node: process.version });
