// Perfetto's trace processor under plain node: a folder of its web build, a trace and SQL go in (argv, and a
// JSON list of queries on stdin), {"error", "results": [{"error", "columns", "rows"}]} comes out on stdout.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

// Traces are small: compiling the engine well would take five times as long as all the rest.
require('v8').setFlagsFromString('--liftoff-only');

const [folder, tracePath] = process.argv.slice(2);
const queries = JSON.parse(fs.readFileSync(0, 'utf8'));

// --- Protobuf, as much as the processor's remote calls need -------------------------------------------------

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; ) {
    const low = Number(rest & 127n);
    rest >>= 7n;
    bytes.push(rest ? low | 128 : low);
    if (!rest) return Buffer.from(bytes);
  }
}

const field = (number, body) => Buffer.concat([varint((number << 3) | 2), varint(body.length), body]);
const number = (id, value) => Buffer.concat([varint(id << 3), varint(value)]);

function* packedVarints(bytes) {
  for (let at = 0; at < bytes.length; ) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    yield value;
  }
}

// Fields of a message as {number: [values]}; bytes stay bytes.
function fields(bytes) {
  const found = {};
  let at = 0;
  const readVarint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(readVarint());
    let value;
    if ((tag & 7) === 0) value = readVarint();
    else if ((tag & 7) === 1) value = bytes.subarray(at, (at += 8));
    else if ((tag & 7) === 5) value = bytes.subarray(at, (at += 4));
    else {
      const size = Number(readVarint());
      value = bytes.subarray(at, (at += size));
    }
    (found[tag >> 3] ||= []).push(value);
  }
  return found;
}

const text = (bytes) => Buffer.from(bytes || []).toString('utf8');

function rowsOf(parts) {
  let columns = [];
  const rows = [];
  let error = '';
  for (const part of parts) {
    const result = fields(part);
    columns = columns.concat((result[1] || []).map(text));
    if (result[2]) error = text(result[2][0]);
    for (const raw of result[3] || []) {
      const batch = fields(raw);
      const types = (batch[1] || []).flatMap((packed) => [...packedVarints(packed)]);
      const whole = (batch[2] || []).flatMap((packed) => [...packedVarints(packed)]);
      const doubles = Buffer.concat((batch[3] || []).map((packed) => Buffer.from(packed)));
      const strings = text((batch[5] || [])[0]).split('\0');
      let nextDouble = 0;
      let row = [];
      for (const type of types) {
        if (type === 2n) row.push(Number(BigInt.asIntN(64, whole.shift())));
        else if (type === 3n) row.push(doubles.readDoubleLE(8 * nextDouble++));
        else if (type === 4n) row.push(strings.shift());
        else row.push(null);
        if (row.length === columns.length) {
          rows.push(row);
          row = [];
        }
      }
    }
  }
  return {error, columns, rows};
}

// --- The engine, which expects to be a web worker -----------------------------------------------------------

const replies = [];
const port = {postMessage: (bytes) => replies.push(Buffer.from(bytes))};

function startEngine() {
  class XMLHttpRequest {
    open(_, url) {
      this.url = url;
    }
    send() {
      this.status = 200;
      this.response = fs.readFileSync(path.join(folder, path.basename(this.url)));
    }
  }
  const quiet = {log() {}, warn() {}, error() {}};
  const context = vm.createContext({
    console: quiet, TextDecoder, TextEncoder, URL, XMLHttpRequest, performance, setTimeout, clearTimeout,
    crypto: globalThis.crypto, location: {href: 'http://localhost/engine_bundle.js'},
    WorkerGlobalScope: class {}, importScripts() {},
  });
  vm.runInContext('globalThis.self = globalThis;', context);
  vm.runInContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), context);
  context.self.onmessage({data: port});
  return (bytes) => {
    const own = vm.runInContext(`new Uint8Array(${bytes.length})`, context);
    own.set(bytes);
    port.onmessage({data: own});
  };
}

let sequence = 0;
function call(send, request, body) {
  replies.length = 0;
  send(field(1, Buffer.concat([number(1, ++sequence), number(2, request), body])));
  return replies.flatMap((reply) => fields(reply)[1] || []).map((message) => fields(message));
}

function load(send) {
  const trace = fs.readFileSync(tracePath);
  const step = 16 << 20;
  for (let at = 0; at < trace.length; at += step) {
    for (const answer of call(send, 1, field(101, trace.subarray(at, at + step)))) {
      if (answer[5]) return text(answer[5][0]);
      const error = text((fields((answer[201] || [Buffer.alloc(0)])[0])[2] || [])[0]);
      if (error) return error;
    }
  }
  for (const answer of call(send, 2, Buffer.alloc(0))) {
    const error = text((fields((answer[212] || [Buffer.alloc(0)])[0])[1] || [])[0]);
    if (error) return error;
  }
  return '';
}

async function main() {
  const send = startEngine();
  // The wasm is instantiated at once, its memory is set up by promises: a turn of the event loop later all are done.
  await new Promise((resolve) => setTimeout(resolve, 0));
  const error = load(send);
  const results = queries.map((sql) => {
    const answers = call(send, 3, field(103, field(1, Buffer.from(sql))));
    return rowsOf(answers.flatMap((answer) => answer[203] || []));
  });
  process.stdout.write(JSON.stringify({error, results}));
}

main().catch((error) => {
  process.stdout.write(JSON.stringify({error: `the engine failed: ${error.stack || error}`, results: []}));
  process.exitCode = 3;
});
