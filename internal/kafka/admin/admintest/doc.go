// Package admintest tests an admin.Client. The client of a real Kafka and the fake must
// both pass it, because other tests run against the fake.
package admintest
