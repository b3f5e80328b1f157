package openai

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits on JSON that goes on to a chat template as it is: Python reads no deeper nesting and no longer numbers.
const (
	maxNesting = 100
	maxDigits  = 1000
)

// checkPlain refuses JSON that a chat template could not read.
func checkPlain(param string, values ...jsontext.Value) error {
	for _, value := range values {
		from := jsontext.NewDecoder(bytes.NewReader(value))
		for {
			token, err := from.ReadToken()
			if err != nil { // the end: it has been checked before
				break
			}
			if from.StackDepth() > maxNesting {
				return badRequest(param, "got JSON that is nested deeper than %d levels, want fewer", maxNesting)
			}
			if token.Kind() == '0' && len(token.String()) > maxDigits {
				return badRequest(param, "got a number of more than %d digits, want a shorter one", maxDigits)
			}
		}
	}
	return nil
}

// checkJSON looks at everything in a chat that the template gets as it is.
func (r *chatRequest) checkJSON() error {
	if err := checkPlain("tools", r.Tools...); err != nil {
		return err
	}
	for i := range r.Messages {
		if err := checkPlain("messages", r.Messages[i].ToolCalls...); err != nil {
			return err
		}
	}
	return checkPlain("chat_template_kwargs", r.TemplateArguments)
}
