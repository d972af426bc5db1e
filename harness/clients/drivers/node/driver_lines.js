// The line protocol of drivers in node: see docs/reference/client-drivers.md.
"use strict";
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const readline = require("node:readline");

let busyMs = 0;
let messages = 0;

function report(saw, fields) {
  process.stdout.write(JSON.stringify({ saw, at: Number(process.hrtime.bigint()), ...fields }) + "\n");
}

function reportError(problem) {
  report("error", { headers: {}, body: String(problem && problem.message ? problem.message : problem) });
}

// Report a message, and work on it for as long as was asked.
function reportMessage(headers, bytes) {
  messages += 1;
  const number = messages;
  const text = bytes.toString("utf8");
  const body = Buffer.from(text, "utf8").equals(bytes) ? { body: text } : { base64: bytes.toString("base64") };
  report("message", { number, headers, ...body });
  if (busyMs) {
    // A listener in JavaScript that waited without giving way would stop every timer of its process.
    setTimeout(() => report("worked", { number }), busyMs);
    busyMs = 0;
  }
}

// Not every package exports its package.json.
function version(name) {
  let folder = path.dirname(require.resolve(name));
  while (path.basename(folder) !== path.basename(name)) folder = path.dirname(folder);
  return JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8")).version;
}

// What libraries use of a WebSocket, over a socket.
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

// Obey the commands on standard input. A command that returns a promise is done when that is kept.
function serve(client, commands) {
  const all = { work: ({ ms }) => { busyMs = ms; }, ...commands };
  const lines = readline.createInterface({ input: process.stdin });
  lines.on("line", (line) => {
    const { do: name, ...fields } = JSON.parse(line);
    if (fields.base64 !== undefined) fields.bytes = Buffer.from(fields.base64, "base64");
    else if (fields.body !== undefined) fields.bytes = Buffer.from(fields.body, "utf8");
    const failed = (error) => report("failed", { do: name, problem: String(error).slice(0, 300) });
    try {
      const result = all[name](fields);
      if (result instanceof Promise) result.then(() => report("did", { do: name }), failed);
      else report("did", { do: name });
    } catch (error) {
      failed(error);
    }
  });
  lines.on("close", () => process.exit(0));
  process.on("uncaughtException", reportError);
  report("ready", { client, version: version(client) });
}

// The commands of libraries that were made from stomp-websocket. "connect" begins to connect a client and returns it; "send" knows the
// order of its arguments.
function stompWebsocket(connect, send) {
  let client = null;
  const received = [];
  const subscriptions = {};
  const listen = (message) => {
    received.push(message);
    reportMessage({ ...message.headers }, Buffer.from(message.body, "utf8"));
  };
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

module.exports = { Socket, report, reportError, reportMessage, serve, stompWebsocket };
