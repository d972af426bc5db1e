// The driver of @stomp/stompjs in node, over TCP: see docs/reference/client-drivers.md.
"use strict";
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const readline = require("node:readline");
const { Client, Versions } = require("@stomp/stompjs");

// The package does not export its package.json.
const home = path.dirname(path.dirname(require.resolve("@stomp/stompjs")));
const version = JSON.parse(fs.readFileSync(path.join(home, "package.json"), "utf8")).version;
let client = null;
let busyMs = 0;
const received = [];
const transactions = {};
const subscriptions = {};

function report(saw, fields) {
  process.stdout.write(JSON.stringify({ saw, at: Number(process.hrtime.bigint()), ...fields }) + "\n");
}

// What stompjs uses of a WebSocket, over a socket.
class Socket {
  constructor(host, port) {
    this.binaryType = "arraybuffer";
    this.readyState = 0;
    this.url = `tcp://${host}:${port}/`;
    this.socket = net.connect({ host, port, noDelay: true }, () => {
      this.readyState = 1;
      this.onopen();
    });
    this.socket.on("data", (data) => {
      this.onmessage({ data: data.buffer.slice(data.byteOffset, data.byteOffset + data.length) });
    });
    this.socket.on("error", (error) => this.onerror(error));
    this.socket.on("close", () => {
      this.readyState = 3;
      this.onclose({ code: 1000, reason: "", wasClean: true });
    });
  }
  send(data) {
    this.socket.write(typeof data === "string" ? data : Buffer.from(data));
  }
  close() {
    this.socket.end();
  }
}

function listen(message) {
  received.push(message);
  const bytes = Buffer.from(message.binaryBody);
  const text = bytes.toString("utf8");
  const body = Buffer.from(text, "utf8").equals(bytes) ? { body: text } : { base64: bytes.toString("base64") };
  const number = received.length;
  report("message", { number, headers: { ...message.headers }, ...body });
  if (busyMs) {
    // A listener in JavaScript that waited without giving way would stop every timer of its process.
    setTimeout(() => report("worked", { number }), busyMs);
    busyMs = 0;
  }
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
  send({ destination, body, base64, headers, content_type, transaction }) {
    const more = { ...(headers || {}) };
    if (content_type) more["content-type"] = content_type;
    if (transaction) more.transaction = transaction;
    const content = base64 === undefined ? { body } : { binaryBody: new Uint8Array(Buffer.from(base64, "base64")) };
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
  work({ ms }) {
    busyMs = ms;
  },
  disconnect() {
    client.deactivate();
  },
};

process.on("uncaughtException", (error) => {
  report("error", { headers: {}, body: String(error.message) });
});
const lines = readline.createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const fields = JSON.parse(line);
  try {
    commands[fields.do](fields);
    report("did", { do: fields.do });
  } catch (error) {
    report("failed", { do: fields.do, problem: String(error).slice(0, 300) });
  }
});
lines.on("close", () => process.exit(0));
report("ready", { client: "@stomp/stompjs", version });
