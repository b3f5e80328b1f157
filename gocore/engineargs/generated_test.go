package engineargs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/fieldtable"
	"dynosim/gocore/speculation"
)

//go:generate go test . -run ^TestGenerated -rewrite

// nestedObjects are the fields that are objects, and their classes in Python.
var nestedObjects = []struct {
	name, class, hints, doc string
}{
	{"reasoning", "ReasoningConfig", "ReasoningFields",
		"How a live engine thinks before it answers; offline replay ignores it."},
	{"sglang", "SglangArgs", "SglangFields", "Settings of a simulated SGLang engine; None means its default."},
	{"host_cache", "HostCacheArgs", "HostCacheFields",
		"A tier of host memory below the KV blocks; None means its default."},
	{"trtllm", "TrtllmArgs", "TrtllmFields", "Settings of a simulated TensorRT-LLM engine; None means its default."},
}

// rowsOf returns the table for generators.
func rowsOf(table []field) []fieldtable.Row {
	rows := make([]fieldtable.Row, len(table))
	for i, f := range table {
		r := fieldtable.Of(f.Field)
		r.KeywordOnly, r.JSONOnly, r.Settable, r.AnyCaseInPython = f.keywordOnly, f.jsonOnly, f.mutable, f.anyCase
		r.Instead, r.Works, r.Schedulers = f.instead, worksWith(f), schedulersOf(f)
		for _, nested := range nestedObjects {
			if nested.name == f.Name {
				r.Class, r.Hints = nested.class, nested.hints
			}
		}
		if r.Name == "num_gpu_blocks" {
			r.ArgDefault = nil // the constructor's None, which stands for the default
		}
		rows[i] = r
	}
	return rows
}

// schedulersOf names the schedulers with which a field has an effect, none if it has one with all.
func schedulersOf(f field) []string {
	var names []string
	for _, s := range schedulers {
		if slices.Contains(f.rules, s.rules) && s.release >= f.from {
			names = append(names, s.name)
		}
	}
	return names
}

// sinceRelease names the first release that has a field.
func sinceRelease(r Release) string {
	if r <= VLLM028 {
		return ""
	}
	return " from " + Args{Scheduler: VLLMOwn, VLLM: VLLMArgs{Release: r}}.SchedulerName()
}

// worksWith says where a field has an effect, "" if that is everywhere.
func worksWith(f field) string {
	var only []string
	if len(f.engines) > 0 {
		only = append(only, "`engine_type` "+listed(f.engines, EngineType.String))
	}
	if len(f.rules) > 0 {
		only = append(only, "`scheduler` "+listed(f.rules, Scheduler.String)+sinceRelease(f.from))
	}
	if f.use == liveOnly && len(f.workers) == 0 {
		only = append(only, "live workers")
	}
	if len(f.workers) > 0 {
		live := map[bool]string{true: "live "}[f.use == liveOnly]
		only = append(only, live+listed(f.workers, engine.Role.String)+" workers")
	}
	if f.use == startUp {
		only = append(only, "live workers, and runs with a planner")
	}
	if f.use == plannedOnly {
		only = append(only, "runs with a planner")
	}
	if f.use == hostBlocks {
		only = append(only, "`scheduler` sglang or vllm (others refuse it)")
	}
	if f.use == offload && len(f.rules) == 0 {
		only = append(only, "nothing yet (refused by live workers and `scheduler` sglang or vllm)")
	}
	if f.aic {
		backend := strings.TrimSpace("`aic_backend` " + f.backend)
		only = append(only, backend+map[bool]string{true: " without `num_gpu_blocks`"}[f.pool])
	}
	if f.without != "" {
		only = append(only, "no `"+f.without+"`")
	}
	if f.jsonOnly {
		only = append(only, "JSON, not Python")
	}
	return strings.Join(only, ", ")
}

func listed[T any](of []T, name func(T) string) string {
	names := make([]string, len(of))
	for i, v := range of {
		names[i] = name(v)
	}
	return strings.Join(names, " or ")
}

// TestGeneratedTable keeps the table from which Python's classes check values.
func TestGeneratedTable(t *testing.T) {
	var nested, sizes []string
	for _, object := range nestedObjects {
		nested = append(nested, fmt.Sprintf("    %q: %s", object.name, list(t, "    ", members[object.name])))
	}
	for _, spec := range engineTypes {
		sizes = append(sizes, fmt.Sprintf("%q: %d", spec.Name, spec.BlockSize))
	}
	rates, err := json.Marshal(speculation.DefaultRates)
	if err != nil {
		t.Fatal(err)
	}
	fieldtable.Keep(t, "../../python/dynamo/_core/engine_args_generated.json", fmt.Sprintf(
		"{\n  \"fields\": %s,\n  \"block_size_default\": {%s},\n  \"accept_rates_default\": %s,\n  \"nested\": "+
			"{\n%s\n  },\n  \"launch\": {\n%s\n  }\n}\n",
		list(t, "  ", table), strings.Join(sizes, ", "), rates, strings.Join(nested, ",\n"), launchRows()))
}

// launchRows returns the nested form of Dynamo 1.6 for Python: the flat field of each member, or what else it may be.
func launchRows() string {
	rows := make([]string, len(launchFields))
	for i, l := range launchFields {
		rows[i] = fmt.Sprintf(`    %q: {"name": %q, "harmless": %q, "want": %q}`, l.path, l.name, l.harmless, l.reason)
	}
	return strings.Join(rows, ",\n")
}

func list(t *testing.T, indent string, table []field) string {
	t.Helper()
	text, err := fieldtable.List(rowsOf(table), indent)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const moduleHead = `"""The types of engine arguments, and the classes of those that are objects.

Code generated from the tables of gocore/engineargs by go generate ./gocore/engineargs. DO NOT EDIT.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict

from dynamo._shell.fields import FieldSet

`

// TestGeneratedTypes keeps Python's types and the docstring of MockEngineArgs.
func TestGeneratedTypes(t *testing.T) {
	var out strings.Builder
	out.WriteString(moduleHead + fieldtable.Literals(rowsOf(table)))
	for _, object := range nestedObjects {
		out.WriteString(fieldtable.Literals(rowsOf(members[object.name])))
	}
	for _, object := range nestedObjects {
		of := fieldtable.Row{Name: object.name, Class: object.class, Hints: object.hints}
		out.WriteString(fieldtable.NestedClass(of, object.doc, rowsOf(members[object.name])))
	}
	out.WriteString(fieldtable.TypedDict("EngineFields",
		"The keywords of MockEngineArgs and their types, also for a dict in its place: see help(MockEngineArgs).",
		rowsOf(table)))
	fieldtable.Keep(t, "../../python/dynamo/_shell/engine_fields.py", out.String())
	fieldtable.KeepArgs(t, "../../python/dynamo/_shell/engine.py", "MockEngineArgs", rowsOf(table))
}

const pageHead = `# Engine arguments

<!-- Code generated from the tables of gocore/engineargs by go generate ./gocore/engineargs. DO NOT EDIT. -->

They are the keys of ` + "`--extra-engine-args`, `--prefill-engine-args` and `--decode-engine-args`" +
	` (a JSON object, or ` + "`@FILE`" + ` with JSON
or YAML), and the keywords of the Python class ` + "`MockEngineArgs`" +
	`, which takes None for JSON's null. Every field has a default,
and a field that says nothing in the column "works with" has an effect everywhere: with each engine, on every worker,
offline and live. Where a field has no effect, a warning names it.

`

// TestGeneratedPage keeps docs/reference/engine-arguments.md.
func TestGeneratedPage(t *testing.T) {
	var out strings.Builder
	out.WriteString(pageHead + fieldtable.Page(rowsOf(table)))
	for _, object := range nestedObjects {
		fmt.Fprintf(&out, "\n## `%s`\n\n%s In Python: `%s`.\n\n%s", object.name, object.doc, object.class,
			fieldtable.Page(rowsOf(members[object.name])))
	}
	fieldtable.Keep(t, "../../docs/reference/engine-arguments.md", out.String())
}
