// Package charts is the home of the Helm chart: go generate here renders the chart to config/install, and the tests
// look at what was rendered. It holds what both the chart and the program have to know.
package charts

//go:generate go run -C ../tools ./render -C ..
