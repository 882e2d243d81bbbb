// Package application is the client program of an application team: it connects with
// nothing but the mounted Secret of a KafkaAccess, sends and reads back records, and
// keeps an account of what it lost.
//
// It decides what the files of the Secret mean and when they are read again. It must
// not know Kubernetes beyond a mounted directory: it has no access to the API.
package application
