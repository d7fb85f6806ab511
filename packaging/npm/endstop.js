#!/usr/bin/env node
// Starts the binary of this platform, and ends as it ends.
"use strict";

const { spawn } = require("node:child_process");

const SIGNALS_OF_TERMINAL = ["SIGINT", "SIGQUIT"];
const SIGNALS_TO_PASS_ON = ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT"];

function binary() {
  const name = `@endstop/${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/bin/endstop`);
  } catch {
    console.error(`error: no binary for this platform: package \`${name}\` is not installed`);
    console.error("hint: install again without --omit=optional");
    process.exit(125);
  }
}

let child;

// A terminal sends its signals to both processes. Passing them on would make one Ctrl-C two.
const hasTerminal = [process.stdin, process.stdout, process.stderr].some((stream) => stream.isTTY);
for (const signal of SIGNALS_OF_TERMINAL) {
  process.on(signal, () => {
    if (!hasTerminal) child?.kill(signal);
  });
}
for (const signal of SIGNALS_TO_PASS_ON) {
  process.on(signal, () => child?.kill(signal));
}

// After the handlers: a signal that comes at once must not end this process alone.
child = spawn(binary(), process.argv.slice(2), { stdio: "inherit" });

child.on("error", (error) => {
  console.error(`error: cannot start the binary: ${error.message}`);
  process.exit(126);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
