// Package spelling finds the name that a user probably meant when a key is unknown, so that messages can say it.
//
// dynamo/_core/spelling.py does the same for names that Python checks.
package spelling
