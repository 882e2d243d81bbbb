// Package metrics tells a scraper of Kafka clusters what their last reconciles have seen.
//
// It does not decide what the figures are, and keeps none of a cluster that is gone.
package metrics
