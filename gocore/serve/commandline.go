package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"dynosim/gocore/spelling"
	"dynosim/gocore/strictjson"
)

// ErrHelp and ErrVersion are the errors of command lines that ask for --help and --version.
var (
	ErrHelp    = errors.New("help")
	ErrVersion = errors.New("version")
)

// FromCommandLine makes a description of command-line arguments, which have the options of python -m dynamo.mocker, and
// of environment variables. @FILE stands for the JSON text in a file. version is that of the program.
func FromCommandLine(args, environment []string, version string) (string, error) {
	description := map[string]any{"environment": environment, "version": version}
	for len(args) > 0 {
		name, value, given := strings.Cut(args[0], "=")
		args = args[1:]
		if name == "--help" || name == "-h" {
			return "", ErrHelp
		}
		if name == "--version" {
			return "", ErrVersion
		}
		opt, on, err := findOption(name)
		if err != nil {
			return "", err
		}
		if _, isSwitch := opt.Type.(strictjson.Bool); isSwitch {
			if given {
				return "", fmt.Errorf("%s: got %q, want no value", name, value)
			}
			description[opt.Name] = on
			continue
		}
		if !given {
			if len(args) == 0 || strings.HasPrefix(args[0], "--") {
				return "", fmt.Errorf("%s: got no value, want %s", name, opt.wanted())
			}
			value, args = args[0], args[1:]
		}
		if description[opt.Name], err = opt.value(value); err != nil {
			return "", err
		}
	}
	if path, given := description["config"]; given {
		delete(description, "config")
		if err := addFile(description, path.(string)); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(description)
	return string(text), err
}

// addFile adds the options in a file to those of the command line, which have the last word. Options that take JSON or
// words with commas may have objects and lists.
func addFile(description map[string]any, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return unreadable("config", path, err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(content, &members); err != nil || members == nil {
		return fmt.Errorf("config: got the file %q, want one with a JSON object; the command of the Python package "+
			"reads YAML, too", path)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		opt, _, err := findOption("--" + strings.ReplaceAll(name, "_", "-"))
		if err != nil || opt.Name == "config" {
			return fmt.Errorf("config: %s: got %q, want names of options%s", path, name,
				meant(strings.ReplaceAll(name, "_", "-")))
		}
		if _, given := description[opt.Name]; !given {
			description[opt.Name] = inFile(members[name])
		}
	}
	return nil
}

// inFile returns what the value of an option in a file stands for.
func inFile(value json.RawMessage) any {
	var words []string
	switch text := strings.TrimSpace(string(value)); {
	case strings.HasPrefix(text, "[") && json.Unmarshal(value, &words) == nil:
		return strings.Join(words, ",")
	case strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{"):
		return text
	}
	return value
}

// findOption finds the option for a word of the command line, and for a switch whether it is turned on.
func findOption(word string) (opt option, on bool, err error) {
	name, found := strings.CutPrefix(word, "--")
	if !found {
		return opt, false, fmt.Errorf("unrecognized argument: %q, want options such as --http-port 8000; --help lists all",
			word)
	}
	if rest, newer := strings.CutPrefix(name, "ais-"); newer { // as Dynamo 1.6 spells it
		name = "aic-" + rest
	}
	for _, opt := range options {
		flag := strings.ReplaceAll(opt.Name, "_", "-")
		switch {
		case name == flag:
			return opt, true, nil
		case opt.off && name == "no-"+flag:
			return opt, false, nil
		}
	}
	return opt, false, fmt.Errorf("unrecognized option: %s%s --help lists all", word, meant(name))
}

// meant names the option that was probably meant, if one is near.
func meant(name string) string {
	var names []string
	for _, opt := range options {
		names = append(names, strings.ReplaceAll(opt.Name, "_", "-"))
	}
	if near := cmp.Or(spelling.Nearest(name, names), spelling.Ending(name, names)); near != "" {
		return ", did you mean --" + near + "?"
	}
	return ";"
}

// wanted says in words which values the option takes.
func (o option) wanted() string {
	if _, isAny := o.Type.(strictjson.Any); isAny {
		return "a finite number"
	}
	return o.Type.Want()
}

// value reads the value of an option.
func (o option) value(text string) (any, error) {
	switch o.Type.(type) {
	case strictjson.Integer:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, &strictjson.FieldError{Field: o.Name, Got: strconv.Quote(text), Want: o.Type.Want()}
		}
		return n, nil
	case strictjson.Number, strictjson.Any:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, &strictjson.FieldError{Field: o.Name, Got: strconv.Quote(text), Want: o.wanted()}
		}
		return f, nil
	}
	path, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return text, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable(o.Name, path, err)
	}
	if !json.Valid(content) {
		return nil, fmt.Errorf("%s: got the file %q, want one with JSON; the command of the Python package reads YAML, too",
			o.Name, path)
	}
	return string(content), nil
}

// ServerHelp lists the options that a server looks at, by group.
func ServerHelp() string {
	var text strings.Builder
	group := ""
	for _, o := range options {
		if o.Name == "standalone" || o.by&(byServer|byFrontend) == 0 {
			continue
		}
		if o.group != group {
			group = o.group
			fmt.Fprintf(&text, "\n%s:\n", group)
		}
		flag := "--" + strings.ReplaceAll(o.Name, "_", "-")
		if _, isSwitch := o.Type.(strictjson.Bool); !isSwitch {
			flag += " VALUE"
		}
		help := o.text
		if o.standIn != "" && !strings.Contains(help, "default") {
			help += " (default: " + o.standIn + ")"
		}
		fmt.Fprintf(&text, "  %-36s %s\n", flag, help)
	}
	return text.String()
}
