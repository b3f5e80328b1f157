package serve

import (
	"errors"
	"fmt"
	"io/fs"
)

// unreadable is the error of an option whose file cannot be read.
func unreadable(option, path string, err error) error {
	if inner := new(fs.PathError); errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("%s: got %q, want a file that can be read: %w", option, path, err)
}
