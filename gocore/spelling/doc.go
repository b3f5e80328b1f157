// Package spelling writes names for messages: the one that a user probably meant when a key is unknown, and paths. It
// also writes numbers for files, as Python does.
//
// dynamo/_core/spelling.py finds the meant one of names that Python checks.
package spelling
