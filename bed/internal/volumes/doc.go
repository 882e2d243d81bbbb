// Package volumes gives claims of the default storage class their volumes: directories on the node's own disk.
package volumes
