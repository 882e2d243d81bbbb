// Package watches knows which list and watch requests the API server denies to a process, since when, and with which
// answer: a cache whose watch is denied continues to show what it has seen last, and says nothing.
//
// It sends no requests of its own, and does not know which objects depend on a watch.
package watches
