// Package controller is the topic operator of one Kafka cluster: it makes topics in Kafka what KafkaTopics say. It is the half that
// reads and writes; package model decides.
package controller
