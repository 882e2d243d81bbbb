// Package health asks again and again whether the server serves: often until it does, and
// rarely afterwards.
//
// It knows neither how the server is asked nor what is done with the answer.
package health
