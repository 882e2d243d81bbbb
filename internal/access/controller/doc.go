// Package controller keeps the Secret and the status of every KafkaAccess as package binding decides: it reads
// what a KafkaAccess refers to, and writes.
//
// It decides nothing about listeners or content. Content of Secrets is read when it is needed and is never kept.
package controller
