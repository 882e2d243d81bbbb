// Package chartstest installs what the chart ships in an API server of tests, so that tests run with the rights
// that the operator has, and not with those of an administrator.
package chartstest
