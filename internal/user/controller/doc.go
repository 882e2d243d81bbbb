// Package controller is the user operator of one Kafka cluster: it issues the certificates of its KafkaUsers
// and stores them in Secrets. It is the half that reads and writes; package model decides.
package controller
