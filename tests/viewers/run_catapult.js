// Catapult's importer (the code behind chrome://tracing) under plain node: its script and a JSON trace go in (argv),
// what it made of the trace comes out on stdout as JSON.
'use strict';
const fs = require('fs');
const vm = require('vm');

const [scriptPath, tracePath] = process.argv.slice(2);

// The script is the viewer's modules in a row, each opened by 'use strict'. As "vinn" (its authors' headless
// shell) the importer needs no page; modules of the user interface do, fail, and are not needed here.
function loadImporter() {
  const context = vm.createContext({});
  const globals = ['window', 'global', 'self'].map((name) => `globalThis.${name} = globalThis;`).join('');
  vm.runInContext(`${globals} globalThis.isVinn = true;`, context);
  for (const module of fs.readFileSync(scriptPath, 'utf8').split(/(?='use strict';)/)) {
    try {
      vm.runInContext(module, context);
    } catch (error) {
      // A module of the user interface.
    }
  }
  return context;
}

function summarise(text) {
  const options = new tr.importer.ImportOptions();
  options.shiftWorldToZero = false;
  options.showImportWarnings = false;
  const model = new tr.Model();
  new tr.importer.Import(model, options).importTraces([text]);
  const slicesOf = (thread) => thread.sliceGroup.slices.map((slice) => ({
    name: slice.title,
    category: slice.category,
    start_us: slice.start * 1000,
    duration_us: slice.duration * 1000,
    parent: slice.parentSlice ? slice.parentSlice.title : null,
    arguments: slice.args,
  }));
  const countersOf = (process) => Object.values(process.counters).flatMap(
      (counter) => counter.series.map((series) => ({
        name: `${counter.name} ${series.name}`,
        values: series.samples.map((sample) => sample.value),
      })));
  const processes = Object.values(model.processes).map((process) => ({
    pid: process.pid,
    name: process.name,
    instants: process.instantEvents.map((event) => event.title),
    threads: Object.values(process.threads).map(
        (thread) => ({tid: thread.tid, name: thread.name, slices: slicesOf(thread)})),
    counters: countersOf(process),
  }));
  const flows = model.flowEvents.map((flow) => [
    flow.startSlice ? flow.startSlice.title : null,
    flow.endSlice ? flow.endSlice.title : null,
  ]);
  const warnings = model.importWarnings.map((warning) => warning.message);
  return JSON.stringify({
    processes, flows, warnings,
    // JSON has no NaN: null says that a bound is not finite.
    bounds_us: [model.bounds.min * 1000, model.bounds.max * 1000],
  });
}

const context = loadImporter();
let answer;
try {
  const imported = vm.runInContext(`(${summarise})`, context)(fs.readFileSync(tracePath, 'utf8'));
  answer = {error: '', ...JSON.parse(imported)};
} catch (error) {
  answer = {error: String(error.message || error)};
}
process.stdout.write(JSON.stringify(answer));
