// Command dynosim-playground is the core in a browser: a Web Worker loads it, and calls what it puts into the global
// object dynosim. docs/site/playground has the page; make playground builds both.
package main
