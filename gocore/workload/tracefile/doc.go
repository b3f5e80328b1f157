// Package tracefile reads the files that traces come in: text in lines, tables with commas between their cells, and
// JSON of any size. All may be compressed.
//
//	lines.go     one line after another
//	table.go     CSV: a cell by the name of its column
//	document.go  JSON: an object by the keys that matter, without holding the file in memory
//	pythonic.go  JSON as Python writes it, with NaN and Infinity
//	times.go     seconds and dates as whole nanoseconds
//
// Errors name the file, the line, the field, what is there and what is wanted.
package tracefile
