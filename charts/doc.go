// Package charts is the home of the Helm chart. It holds nothing itself: go generate here renders the chart
// to config/install, and the tests look at what was rendered.
package charts

//go:generate go run -C ../tools ./render -C ..
