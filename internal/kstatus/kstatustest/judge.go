package kstatustest

import (
	"embed"
	"fmt"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

//go:embed argocd/*/health.lua
var checks embed.FS

// Compute returns InProgress, Failed, Current or Terminating.
func Compute(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	result, err := status.Compute(object)
	if err != nil {
		t.Fatal(err)
	}
	return result.Status.String()
}

// BuiltIn is the check that Argo CD has for a kind; empty when it has none, and the resource counts as healthy.
func BuiltIn(object *unstructured.Unstructured) string {
	script, err := checks.ReadFile("argocd/" + object.GetKind() + "/health.lua")
	if err != nil {
		return ""
	}
	return string(script)
}

// Health returns what a health check for Argo CD says of an object: Healthy, Progressing or Degraded.
func Health(t *testing.T, script string, object *unstructured.Unstructured) string {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	state.Push(state.NewFunction(lua.OpenBase)) // checks that people configure have no other libraries by default
	state.Call(0, 0)
	state.SetGlobal("obj", luaValue(state, object.Object))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	verdict, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		t.Fatalf("the check returns %s, and no table", state.Get(-1))
	}
	return verdict.RawGetString("status").String()
}

func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case nil:
		return lua.LNil
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		table := state.NewTable()
		for _, entry := range value {
			table.Append(luaValue(state, entry))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, entry := range value {
			table.RawSetString(key, luaValue(state, entry))
		}
		return table
	default:
		panic(fmt.Sprintf("%T is no value of an object", value))
	}
}
