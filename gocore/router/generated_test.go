package router

import (
	"testing"

	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestGenerated -rewrite

// tableRows returns the table for generators, with the hint that belongs to one message.
func tableRows() []fieldtable.Row {
	rows := make([]fieldtable.Row, len(table))
	for i, f := range table {
		r := fieldtable.Of(f.Field)
		r.KeywordOnly, r.Settable = f.keywordOnly, f.mutable
		if r.Name == "overlap_score_credit" {
			r.Want += moreWeight
		}
		r.Works = map[use]string{inert: "live routers only", notBuilt: "nothing yet",
			retired: "nothing any longer"}[f.use]
		rows[i] = r
	}
	return rows
}

// TestGeneratedTable keeps the table from which the Python class checks values.
func TestGeneratedTable(t *testing.T) {
	list, err := fieldtable.List(tableRows(), "  ")
	if err != nil {
		t.Fatal(err)
	}
	fieldtable.Keep(t, "../../python/dynamo/_core/router_config_generated.json", "{\n  \"fields\": "+list+"\n}\n")
}

const moduleHead = `"""The types of a router configuration.

Code generated from gocore/router/fields.go by go generate ./gocore/router. DO NOT EDIT.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, TypedDict

`

// TestGeneratedTypes keeps Python's types and the docstring of KvRouterConfig.
func TestGeneratedTypes(t *testing.T) {
	fieldtable.Keep(t, "../../python/dynamo/_shell/router_fields.py",
		moduleHead+fieldtable.Literals(tableRows())+fieldtable.TypedDict("RouterFields",
			"The keywords of KvRouterConfig and their types, also for a dict in its place: see help(KvRouterConfig).",
			tableRows()))
	fieldtable.KeepArgs(t, "../../python/dynamo/_shell/router.py", "KvRouterConfig", tableRows())
}

const pageHead = `# Router configuration

<!-- Code generated from gocore/router/fields.go by go generate ./gocore/router. DO NOT EDIT. -->

These are the keys of ` + "`--router-config`" + ` (a JSON object, or ` + "`@FILE`" +
	` with JSON or YAML), and the keywords of the Python class
` + "`KvRouterConfig`" + `, which takes None for JSON's null. They concern ` + "`--router-mode kv_router`" +
	`. Fields that work with live routers
only have no effect in a replay: they are accepted and checked, so that the configuration ` +
	`of a live router can be used, and
a warning names those that are set.

`

// TestGeneratedPage keeps docs/reference/router.md.
func TestGeneratedPage(t *testing.T) {
	fieldtable.Keep(t, "../../docs/reference/router.md", pageHead+fieldtable.Page(tableRows()))
}
