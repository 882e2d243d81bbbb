package monitoring

import (
	"maps"
	"strings"
)

// course is what an alert is tested with. In series of a minute each, something is wrong from minute 60.
type course struct {
	series []string
	// minute is that in which the alert begins to fire, and summary what it says then.
	minute  int
	summary string
	// also are courses in which it fires in the same minute, by their descriptions.
	also map[string][]string
	// silent are courses in which the alert does not fire, by their descriptions.
	silent map[string][]string
}

func courses() map[string]course {
	all := map[string]course{}
	for _, part := range []map[string]course{ofOperators(), ofKafka(), ofCertificates(), ofRotations(), ofUsers(), ofTopics(), ofEtcd(), ofEtcdCertificates(), ofBackups()} {
		maps.Copy(all, part)
	}
	return all
}

// The labels of most series.
const (
	kafka   = `{namespace="kafka",cluster="my-cluster"`
	etcd    = `{namespace="etcd",etcdcluster="my-cluster"`
	replica = `namespace="keyturn",job="keyturn-metrics",instance="a",pod="keyturn-a"`
)

// another returns the same series of another replica.
func another(series string) string {
	return strings.NewReplacer(`instance="a"`, `instance="b"`, `pod="keyturn-a"`, `pod="keyturn-b"`).Replace(series)
}

// gone is the course of the alert for an operator without a leader.
func gone(lease, summary string) course {
	leader := `leader_election_master_status{name="` + lease + `",` + replica + `} `
	return course{
		series: []string{leader + "1x59 0x300", another(leader + "0x400")}, minute: 75, summary: summary,
		silent: map[string][]string{"another replica leads": {leader + "1x59 stale", another(leader + "0x59 1x300")}},
	}
}

func ofOperators() map[string]course {
	const (
		failed = `controller_runtime_reconcile_errors_total{controller="kafka",` + replica + `} `
		clock  = `keyturn_operator_clock_ahead_seconds{` + replica + `} `
		denied = `keyturn_watch_denied{resource="secrets",watched_namespace="",code="403",` + replica + `} `
	)
	return map[string]course{
		"KeyturnOperatorIsGone":       gone("keyturn-operator", "No replica of the Kafka operator leads."),
		"KeyturnAccessOperatorIsGone": gone("keyturn-access-operator", "No replica of the access operator leads."),
		"KeyturnEtcdOperatorIsGone":   gone("keyturn-etcd-operator", "No replica of the etcd operator leads."),
		// The longest time between two tries is 17 minutes.
		"KeyturnReconcilesFail": {
			series: []string{failed + "0x59 1x16 2x16 3x16 4x16 5x16 6x300", clock + "0x400"}, minute: 120,
			summary: "Reconciles of the controller kafka of keyturn-metrics have failed for an hour.",
			silent: map[string][]string{
				"one error":                       {failed + "0x59 1x300", clock + "0x400"},
				"errors of an unrelated operator": {failed + "0x59 1+1x300"},
			},
		},
		"KeyturnWatchIsDenied": {
			series: []string{denied + "_x60 1x300"}, minute: 65, summary: "keyturn-a does not notice changes of secrets.",
			silent: map[string][]string{"for four minutes": {denied + "_x60 1x4 stale"}},
		},
		"KeyturnOperatorClockIsWrong": {
			series: []string{clock + "0x59 -400x300"}, minute: 65, summary: "The clock of keyturn-a differs by 6m 40s from that of the API server.",
			silent: map[string][]string{"a little ahead": {clock + "200x400"}},
		},
		"KeyturnAccessesAreNotReady": {
			series: []string{`keyturn_access_resources{ready="false"} 0x59 2x300`}, minute: 75, summary: "2 KafkaAccesses are not ready.",
			silent: map[string][]string{"all are ready": {`keyturn_access_resources{ready="false"} 0x400`, `keyturn_access_resources{ready="true"} 2x400`}},
		},
	}
}

func ofKafka() map[string]course {
	const (
		ready  = `keyturn_ready` + kafka + `,reason=`
		node   = `,name="my-cluster-dual-role-0"} `
		silent = `keyturn_agents_silent` + kafka + `} `
		left   = `keyturn_rollout_pending_nodes` + kafka + `} `
		gate   = `keyturn_rollout_blocked_nodes` + kafka + `,gate="OthersReady"} `
		due    = `keyturn_restart_due_timestamp_seconds` + kafka + node
	)
	return map[string]course{
		"KeyturnKafkaIsNotReady": {
			series: []string{ready + `""} 1x59 stale`, ready + `"RotationBlocked"} _x60 0x300`}, minute: 65, summary: "Kafka kafka/my-cluster is not ready.",
			silent: map[string][]string{
				"for four minutes":     {ready + `""} 1x59 stale _x4 1x300`, ready + `"PodsNotReady"} _x60 0x4 stale`},
				"it is being created":  {ready + `"Creating"} 0x400`},
				"it is paused":         {ready + `"ReconciliationPaused"} 0x400`},
				"another one is ready": {ready + `""} 1x400`},
			},
		},
		"KeyturnKafkaIsNotCreated": {
			series: []string{ready + `"Creating"} _x60 0x300`}, minute: 90, summary: "Kafka kafka/my-cluster has been in creation for 30 minutes.",
			silent: map[string][]string{"for 29 minutes": {ready + `"Creating"} _x60 0x29 stale`}},
		},
		"KeyturnAgentsSilent": {
			series: []string{silent + "0x59 2x300"}, minute: 65, summary: "2 agents of Kafka kafka/my-cluster do not answer the operator.",
			silent: map[string][]string{"all answer": {silent + "0x400"}},
		},
		"KeyturnRolloutBlocked": {
			series: []string{left + "0x59 3x300", gate + "_x60 2x300"}, minute: 89,
			summary: "No node of Kafka kafka/my-cluster has been restarted for 20 minutes, although some wait for it.",
			silent:  map[string][]string{"one is restarted every 9 minutes": {left + "0x59 5x8 4x8 3x8 2x8 1x8 0x300", gate + "_x60 1x44 stale"}},
		},
		"KeyturnRestartOverdue": {
			series: []string{due + "3600x300"}, minute: 121, summary: "my-cluster-dual-role-0 of Kafka kafka/my-cluster was not restarted in time.",
			silent: map[string][]string{"there is time": {due + "86400x400"}},
		},
		"KeyturnNodeServesWhatIsNotStored": {
			series: []string{`keyturn_listeners_out_of_sync` + kafka + `,authority="cluster-ca"` + node + "0x59 1x300"}, minute: 75,
			summary: "my-cluster-dual-role-0 of Kafka kafka/my-cluster does not use the certificates that are stored for it, or does not report them.",
			silent: map[string][]string{"a rotation is in progress": {
				`keyturn_listeners_out_of_sync` + kafka + `,authority="cluster-ca"` + node + "0x59 1x300", `keyturn_rotation_start_timestamp_seconds` + kafka + `,authority="cluster-ca"} 0x400`,
			}},
		},
	}
}

func ofCertificates() map[string]course {
	const (
		expiry  = `keyturn_certificate_not_after_timestamp_seconds` + kafka + `,kind=`
		node    = `"node",name="my-cluster-dual-role-0"} `
		warning = `keyturn_warnings` + kafka + `,reason=`
	)
	return map[string]course{
		"KeyturnCertificateExpired": {
			series: []string{expiry + `"listener",name="external"} 3600x300`}, minute: 65, summary: "Certificate external (listener) of Kafka kafka/my-cluster has expired.",
			silent: map[string][]string{"it expires tomorrow": {expiry + `"listener",name="external"} 86400x400`}},
		},
		"KeyturnCertificateExpiresSoon": { // 14 days and an hour
			series: []string{expiry + node + "1213200x300"}, minute: 121, summary: "Certificate my-cluster-dual-role-0 (node) of Kafka kafka/my-cluster expires in 13d 22h 59m 0s.",
			also: map[string][]string{"of a listener": {expiry + `"listener",name="external"} 1213200x300`}},
			silent: map[string][]string{
				"it expires in 30 days":       {expiry + node + "2592000x400"},
				"the issuer gives short ones": {expiry + node + "86400x400", warning + `"CertificateShortLived"} 1x400`},
				"a CA has its own alert":      {expiry + `"ca",name="cluster-ca"} 86400x400`},
			},
		},
		"KeyturnCertificateIsPending": {
			series: []string{warning + `"CertificatePending"} _x60 1x300`}, minute: 120, summary: "A certificate of Kafka kafka/my-cluster has not been renewed: CertificatePending.",
			silent: map[string][]string{"another warning": {warning + `"FieldsWithoutEffect"} 1x400`}},
		},
		"KeyturnCAExpiresSoon": { // 21 days and an hour
			series: []string{expiry + `"ca",name="cluster-ca"} 1818000x300`}, minute: 121, summary: "The cluster-ca of Kafka kafka/my-cluster expires in 20d 22h 59m 0s.",
			silent: map[string][]string{
				"it expires in 30 days": {expiry + `"ca",name="cluster-ca"} 2592000x400`},
				"a node has its own":    {expiry + node + "86400x400"},
			},
		},
	}
}

func ofRotations() map[string]course {
	const (
		phase    = `keyturn_rotation_phase` + kafka + `,authority="cluster-ca",phase=`
		start    = `keyturn_rotation_start_timestamp_seconds` + kafka + `,authority="cluster-ca"} `
		deadline = `keyturn_rotation_deadline_timestamp_seconds` + kafka + `,authority="cluster-ca"} `
		rotation = "the cluster-ca of Kafka kafka/my-cluster"
	)
	return map[string]course{
		"KeyturnRotationBlocked": {
			series: []string{phase + `"WaitingForLeaves"} 1x59 stale`, phase + `"Blocked"} _x60 1x300`}, minute: 65, summary: "The rotation of " + rotation + " is blocked.",
			silent: map[string][]string{"it waits": {phase + `"WaitingForLeaves"} 1x400`}},
		},
		"KeyturnRotationTakesLong": {
			series: []string{start + "0x400", phase + `"WaitingForLeaves"} 1x400`}, minute: 61, summary: "The rotation of " + rotation + " has taken 1h 1m 0s.",
			silent: map[string][]string{
				"it is complete after 59 minutes": {start + "_x30 1800x59 stale", phase + `"WaitingForLeaves"} 1x400`},
				"an old CA is kept":               {start + "0x400", phase + `"WaitingForExpiry"} 1x400`},
			},
		},
		"KeyturnRotationPaused": {
			series: []string{phase + `"Paused"} _x60 1x300`}, minute: 120, summary: "The rotation of " + rotation + " is paused.",
			silent: map[string][]string{"for 50 minutes": {phase + `"Paused"} _x60 1x50 stale`}},
		},
		"KeyturnRotationNearsItsDeadline": { // 7 days and an hour
			series: []string{deadline + "608400x300", phase + `"WaitingForLeaves"} 1x400`}, minute: 66,
			summary: "An old CA certificate of " + rotation + " expires in 6d 23h 54m 0s, and its replacement is not complete.",
			silent: map[string][]string{
				"it is kept until it expires": {deadline + "608400x400", phase + `"WaitingForExpiry"} 1x400`},
				"there is time":               {deadline + "2592000x400", phase + `"WaitingForLeaves"} 1x400`},
			},
		},
	}
}

func ofUsers() map[string]course {
	const (
		resources = `keyturn_user_resources` + kafka + `,job="keyturn-user-metrics",instance="a",ready=`
		leader    = `leader_election_master_status{name="my-cluster-user-operator",job="keyturn-user-metrics",instance="a"} `
		expiry    = `keyturn_user_certificate_expiration_timestamp_seconds` + kafka + `} `
	)
	return map[string]course{
		"KeyturnUserOperatorIsGone": {
			series: []string{resources + `"true"} 5x59 stale`, leader + "1x59 stale"}, minute: 75, summary: "No replica of the user operator of Kafka kafka/my-cluster leads.",
			silent: map[string][]string{
				"another replica leads": {resources + `"true"} 5x59 stale`, leader + "1x59 stale", another(resources + `"true"} 0x59 5x300`), another(leader + "0x59 1x300")},
				"there never was one":   {`keyturn_user_unmanaged` + kafka + `} 0x400`},
			},
		},
		"KeyturnUsersAreNotReady": {
			series: []string{resources + `"false"} 0x59 2x300`}, minute: 75, summary: "2 KafkaUsers of Kafka kafka/my-cluster are not ready.",
			silent: map[string][]string{"all are ready": {resources + `"false"} 0x400`, resources + `"true"} 5x400`}},
		},
		"KeyturnUserCertificateExpired": {
			series: []string{expiry + "3600x300"}, minute: 65, summary: "The certificate of a KafkaUser of Kafka kafka/my-cluster has expired.",
			silent: map[string][]string{"it expires tomorrow": {expiry + "86400x400"}},
		},
		"KeyturnUserCertificateExpiresSoon": {
			series: []string{expiry + "1213200x300"}, minute: 121, summary: "The certificate of a KafkaUser of Kafka kafka/my-cluster expires in 13d 22h 59m 0s.",
			silent: map[string][]string{"it expires in 30 days": {expiry + "2592000x400"}},
		},
	}
}

func ofTopics() map[string]course {
	const (
		resources = `keyturn_topic_resources` + kafka + `,job="keyturn-topic-metrics",instance="a",ready=`
		leader    = `leader_election_master_status{name="my-cluster-topic-operator",job="keyturn-topic-metrics",instance="a"} `
	)
	return map[string]course{
		"KeyturnTopicOperatorIsGone": {
			series: []string{resources + `"true"} 5x59 stale`, leader + "1x59 stale"}, minute: 75, summary: "No replica of the topic operator of Kafka kafka/my-cluster leads.",
			silent: map[string][]string{
				"another replica leads": {resources + `"true"} 5x59 stale`, leader + "1x59 stale", another(resources + `"true"} 0x59 5x300`), another(leader + "0x59 1x300")},
				"there never was one":   {`keyturn_topic_unmanaged` + kafka + `} 0x400`},
			},
		},
		"KeyturnTopicsAreNotReady": {
			series: []string{resources + `"false"} 0x59 2x300`}, minute: 75, summary: "2 KafkaTopics of Kafka kafka/my-cluster are not ready.",
			silent: map[string][]string{"all are ready": {resources + `"false"} 0x400`, resources + `"true"} 5x400`}},
		},
	}
}

func ofEtcd() map[string]course {
	const (
		members = `keyturn_etcd_members` + etcd + `,ready=`
		size    = `keyturn_etcd_database_size_bytes` + etcd + `,member="my-cluster-0"} `
		quota   = `keyturn_etcd_database_quota_bytes` + etcd + `,member="my-cluster-0"} `
		alarm   = `keyturn_etcd_alarm` + etcd + `,member="my-cluster-0",alarm="NOSPACE"} `
	)
	return map[string]course{
		"KeyturnEtcdHasNoQuorum": {
			series: []string{members + `"true"} 3x59 1x300`, members + `"false"} 0x59 2x300`}, minute: 70,
			summary: "2 members of EtcdCluster etcd/my-cluster are not ready, so that it has no quorum.",
			silent: map[string][]string{
				"one of three is not ready": {members + `"true"} 3x59 2x300`, members + `"false"} 0x59 1x300`},
				"there are no members":      {members + `"true"} 0x400`, members + `"false"} 0x400`},
			},
		},
		"KeyturnEtcdMemberIsNotReady": {
			series: []string{members + `"false"} 0x59 1x300`}, minute: 75, summary: "1 members of EtcdCluster etcd/my-cluster are not ready.",
			silent: map[string][]string{"it is restarted": {members + `"false"} 0x59 1x10 0x300`}},
		},
		"KeyturnEtcdDoesNotAnswer": {
			series: []string{members + `"true"} 3x400`, size + "1000x59 stale"}, minute: 75, summary: "No member of EtcdCluster etcd/my-cluster answers the operator, although some are ready.",
			silent: map[string][]string{"one answers": {members + `"true"} 3x400`, size + "1000x400"}},
		},
		"KeyturnEtcdHasAlarm": {
			series: []string{alarm + "_x60 1x300"}, minute: 60, summary: "Member my-cluster-0 of EtcdCluster etcd/my-cluster has raised the alarm NOSPACE.",
			silent: map[string][]string{"it was disarmed": {alarm + "1x50 stale"}},
		},
		"KeyturnEtcdQuotaIsNearlyUsed": {
			series: []string{size + "50x59 90x300", quota + "100x400"}, minute: 65, summary: "The database of my-cluster-0 of EtcdCluster etcd/my-cluster uses 90% of its quota.",
			silent: map[string][]string{"half of it is used": {size + "50x400", quota + "100x400"}},
		},
	}
}

func ofEtcdCertificates() map[string]course {
	const (
		ca      = `keyturn_etcd_ca_expiry_timestamp_seconds` + etcd + `,plane="peer"} `
		expiry  = `keyturn_etcd_certificate_expiry_timestamp_seconds` + etcd + `,plane="peer"} `
		loaded  = `keyturn_etcd_loaded_certificate_expiry_timestamp_seconds` + etcd + `,plane="peer"} `
		denied  = `keyturn_etcd_requests_denied_total{cause="PodUnknown"} `
		policy  = `keyturn_etcd_attestation_enforced{reason=`
		cluster = "EtcdCluster etcd/my-cluster"
	)
	return map[string]course{
		"KeyturnEtcdCertificateExpired": {
			series: []string{expiry + "3600x300"}, minute: 65, summary: "A peer certificate of " + cluster + " has expired.",
			silent: map[string][]string{"it expires tomorrow": {expiry + "86400x400"}},
		},
		"KeyturnEtcdCertificateIsNotRenewed": { // 2 days and an hour
			series: []string{expiry + "176400x300"}, minute: 121, summary: "A peer certificate of " + cluster + " expires in 1d 22h 59m 0s and has not been renewed.",
			silent: map[string][]string{"a third of 30 days is left": {expiry + "864000x400"}},
		},
		"KeyturnEtcdCertificateIsNotLoaded": {
			series: []string{expiry + "864000x59 2592000x300", loaded + "864000x360"}, minute: 90, summary: "A renewed peer certificate of " + cluster + " is not presented.",
			silent: map[string][]string{
				"it is loaded":             {expiry + "2592000x400", loaded + "2592000x400"},
				"no agent has reported it": {expiry + "2592000x400"},
			},
		},
		"KeyturnEtcdCAExpiresSoon": { // 90 days and an hour
			series: []string{ca + "7779600x300"}, minute: 121, summary: "The peer CA of " + cluster + " expires in 89d 22h 59m 0s.",
			silent: map[string][]string{"it expires in a year": {ca + "31536000x400"}},
		},
		"KeyturnEtcdCAIsAboutToExpire": { // 14 days and an hour
			series: []string{ca + "1213200x300"}, minute: 121, summary: "The peer CA of " + cluster + " expires in 13d 22h 59m 0s.",
			silent: map[string][]string{"it expires in 30 days": {ca + "2592000x400"}},
		},
		// The first denial creates the series, and is no increase.
		"KeyturnEtcdRequestsAreDenied": {
			series: []string{denied + "_x60 1x300"}, minute: 60, summary: "The etcd operator denies requests for certificates: PodUnknown.",
			also:   map[string][]string{"a second one": {denied + "1x59 2x300"}},
			silent: map[string][]string{"long ago": {denied + "3x400"}},
		},
		"KeyturnEtcdAttestationIsNotEnforced": {
			series: []string{policy + `"PolicyEnforced"} 1x59 stale`, policy + `"PolicyMissing"} _x60 0x300`}, minute: 65,
			summary: "The admission policy for etcd members is not enforced: PolicyMissing.",
			silent:  map[string][]string{"it is enforced": {policy + `"PolicyEnforced"} 1x400`}},
		},
	}
}

func ofBackups() map[string]course {
	const (
		backup   = `{namespace="etcd",etcdbackup="nightly"`
		attempts = `keyturn_etcd_backup_attempts_total` + backup + `,result=`
		last     = `keyturn_etcd_backup_last_success_timestamp_seconds` + backup + `} `
		interval = `keyturn_etcd_backup_interval_seconds` + backup + `} `
	)
	return map[string]course{
		"KeyturnEtcdBackupFails": {
			series: []string{attempts + `"SnapshotFailed"} _x60 1x300`}, minute: 60, summary: "A backup of EtcdBackup etcd/nightly has failed: SnapshotFailed.",
			also: map[string][]string{"a second one": {attempts + `"SnapshotFailed"} 1x59 2x300`}},
			silent: map[string][]string{
				"one has succeeded": {attempts + `"BackupSucceeded"} 0x59 1x300`},
				"long ago":          {attempts + `"SnapshotFailed"} 2x400`},
			},
		},
		"KeyturnEtcdBackupIsOld": {
			series: []string{last + "0x400", interval + "1800x400"}, minute: 76, summary: "EtcdBackup etcd/nightly has missed two backups.",
			silent: map[string][]string{
				"it makes one backup": {last + "0x400"},
				"each is a bit late":  {last + "0x89 5400x89 10800x89 16200x300", interval + "3000x400"},
			},
		},
	}
}
