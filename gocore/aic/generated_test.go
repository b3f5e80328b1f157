package aic

import (
	"testing"

	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestGenerated -rewrite

func tableRows() []fieldtable.Row {
	rows := make([]fieldtable.Row, len(Fields))
	for i, f := range Fields {
		rows[i] = fieldtable.Of(f)
	}
	return rows
}

// TestGeneratedTable keeps the table from which the Python class checks values.
func TestGeneratedTable(t *testing.T) {
	list, err := fieldtable.List(tableRows(), "  ")
	if err != nil {
		t.Fatal(err)
	}
	fieldtable.Keep(t, "../../python/dynamo/_core/aic_perf_config_generated.json", "{\n  \"fields\": "+list+"\n}\n")
}

const moduleHead = `"""The types of the description of GPUs for a router.

Code generated from gocore/aic/config.go by go generate ./gocore/aic. DO NOT EDIT.
"""

from __future__ import annotations

import os
from typing import TypedDict
`

// TestGeneratedTypes keeps Python's types and the docstring of AicPerfConfig.
func TestGeneratedTypes(t *testing.T) {
	fieldtable.Keep(t, "../../python/dynamo/_shell/aic_fields.py", moduleHead+fieldtable.TypedDict("AicFields",
		"The keywords of AicPerfConfig and their types, also for a dict in its place: see help(AicPerfConfig).",
		tableRows()))
	fieldtable.KeepArgs(t, "../../python/dynamo/_shell/aic.py", "AicPerfConfig", tableRows())
}

const pageHead = `# GPUs for a router's prefill load model

<!-- Code generated from gocore/aic/config.go by go generate ./gocore/aic. DO NOT EDIT. -->

A KV-aware router with ` + "`router_prefill_load_model` `aic`" +
	` asks the AIC SDK how long workers compute a prompt. These are the
keys of ` + "`aic_perf_config`" + ` and the keywords of the Python class ` + "`AicPerfConfig`" +
	`; the command line has an option for each,
such as ` + "`--aic-backend`" + `. The first three are required.

`

// TestGeneratedPage keeps docs/reference/aic.md.
func TestGeneratedPage(t *testing.T) {
	fieldtable.Keep(t, "../../docs/reference/aic.md", pageHead+fieldtable.Page(tableRows()))
}
