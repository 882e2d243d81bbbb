package kstatus

import "maps"

// The types of both conditions. Each is True, or absent.
const (
	// reconciling: the resource is not yet as its spec asks, and gets there by itself.
	reconciling = "Reconciling"
	// stalled: it stays so until a person changes something.
	stalled = "Stalled"
)

// outlooks are the conditions that follow from reasons. An object that is missing is waited for, because tools apply objects
// in any order; one that exists and cannot be used needs a person. A reason with causes of both sorts is waited for.
func outlooks() map[string]string {
	all := map[string]string{}
	for _, part := range []map[string]string{
		ofAny(), ofKafka(), ofKafkaUser(), ofKafkaTopic(), ofKafkaAccess(), ofEtcdCluster(), ofEtcdClients(), ofEtcdPKI(),
	} {
		maps.Copy(all, part)
	}
	return all
}

// ofAny are the reasons that resources of several kinds have.
func ofAny() map[string]string {
	return map[string]string{
		"ReconciliationFailed": reconciling,
		"NoOperator":           reconciling, // operators beside a new cluster start when it runs
		"ClockDiffers":         stalled,
		"Forbidden":            reconciling, // also a quota that is not counted yet
		"Unauthorized":         stalled,
		"NotFound":             stalled,     // of a denied watch: the kind does not exist
		"ForeignObject":        reconciling, // also what an object of the same name has left, until it is collected
		"MadeByAnother":        stalled,
		"InvalidSecret":        stalled,
		"NameTooLong":          stalled,
	}
}

func ofKafka() map[string]string {
	return map[string]string{
		"Creating":                 reconciling,
		"PodsNotReady":             reconciling,
		"Progressing":              reconciling,
		"Blocked":                  reconciling, // gates open when pods return and partitions catch up
		"CertificatesExpired":      reconciling, // also while new ones are loaded
		"RotationBlocked":          stalled,
		"InvalidResourceException": stalled,
	}
}

// ofKafkaTopic: reasons that users have as well are theirs.
func ofKafkaTopic() map[string]string {
	return map[string]string{
		"NotSupported":     stalled,
		"ResourceConflict": stalled,
		"KafkaError":       reconciling, // also replicas for brokers that have not started yet
	}
}

// ofKafkaUser: of a CA that is lost the Kafka itself is stalled.
func ofKafkaUser() map[string]string {
	return map[string]string{
		"MissingKafka":          reconciling,
		"ClientsCANotReady":     reconciling,
		"CertificateHeld":       reconciling,
		"CertificatePending":    reconciling,
		"CertificateNotAdopted": reconciling,
		"MissingPassword":       reconciling,
		"AuthorizationDisabled": reconciling, // nodes may have to be restarted for it
		"KafkaUnreachable":      reconciling,
		"NotAuthorized":         reconciling, // the same
		"InvalidPassword":       stalled,
		"ClusterLabelChanged":   stalled,
		"RejectedByKafka":       stalled,
	}
}

func ofKafkaAccess() map[string]string {
	return map[string]string{
		"Reconciling":               reconciling,
		"MissingKubernetesResource": reconciling,
		"NamespaceNotAllowed":       reconciling, // the object may be missing, which is not told apart
		"WaitingForKafka":           reconciling,
		"WaitingForUser":            reconciling,
		"IncompleteSecret":          reconciling,
		"InvalidUserKind":           stalled,
		"UserOfAnotherCluster":      stalled,
		"NoListener":                stalled,
		"ListenerNotFound":          stalled,
		"ListenerRequired":          stalled,
		"IncompatibleListener":      stalled,
		"TrustUnknown":              stalled,
	}
}

func ofEtcdCluster() map[string]string {
	return map[string]string{
		"WaitingForPods":       reconciling,
		"WaitingForMembers":    reconciling,
		"WaitingForLearner":    reconciling,
		"EtcdNotAnswering":     reconciling,
		"RemovingMember":       reconciling,
		"ReplacingMember":      reconciling,
		"Upgrading":            reconciling,
		"Restarting":           reconciling,
		"MemberDataLost":       reconciling, // it is replaced when the others are a quorum
		"QuorumAtRisk":         reconciling,
		"MembersDisagree":      reconciling, // members that do not answer may return
		"SecretMissing":        reconciling,
		"RestoreSourceMissing": reconciling,
		"RestoreSourceInUse":   reconciling,
		"WaitingForSigner":     reconciling,
		"TooManyCertificates":  reconciling,
		"Paused":               stalled, // only where members are to be changed
		"NotSupported":         stalled,
		"DowngradeRefused":     stalled,
		"SecretNotUsable":      stalled,
		"SecretExpired":        stalled,
		"CAChangedTooSoon":     stalled,
		"NoSpace":              stalled,
		"Corrupt":              stalled,
		"RequestDenied":        stalled,
		"UnknownMemberPod":     stalled,
		"SpecDiffers":          stalled,
		"PeerURLChanged":       stalled,
		"UnknownMember":        stalled,
		"MemberRemoved":        stalled,
		"MemberIDChanged":      stalled,
		"QuorumLost":           stalled,
		"RestoreNotVerified":   stalled,
		"RestoreFailed":        stalled,
		"RoleBoundElsewhere":   stalled,
		"AnotherOperatorPKI":   stalled,
		"CALost":               stalled,
		"CAUnusable":           stalled,
		"CAChanged":            stalled,
		"PodsRefused":          reconciling, // also by a quota that is not counted yet
		"LedgerUnreadable":     stalled,
	}
}

// ofEtcdClients are the reasons of an EtcdAccess and an EtcdBackup, with what their requests for certificates wait for.
func ofEtcdClients() map[string]string {
	return map[string]string{
		"CANotReady":             reconciling,
		"CannotIssue":            reconciling,
		"NoRequest":              reconciling,
		"OtherPlaneNotSigned":    reconciling,
		"PodTerminating":         reconciling,
		"PodHasNoAddress":        reconciling,
		"AttestationNotEnforced": reconciling, // also while the operator is upgraded
		"LedgerFull":             stalled,
		"SecretNotWritable":      reconciling, // the same
		"BackupRunning":          reconciling,
		"ClusterNotFound":        reconciling,
		"NoQuorum":               reconciling,
		"ClaimNotFound":          reconciling,
		"PodNotScheduled":        reconciling,
		"PodNotStarted":          reconciling,
		"PodFailed":              reconciling, // the next backup is tried
		"PodLost":                reconciling,
		"SnapshotFailed":         reconciling,
		"SnapshotNotVerified":    reconciling,
		"SnapshotDenied":         stalled,
		"VolumeNotWritable":      stalled,
		"ClaimInUse":             stalled,
		"PodOverdue":             stalled,
	}
}

// ofEtcdPKI are about an answer of the signer.
func ofEtcdPKI() map[string]string {
	return map[string]string{
		"CertificateNotYetValid": reconciling,
		"SignerDenied":           stalled,
		"PrivateKeyInAnswer":     stalled,
		"CertificateUnreadable":  stalled,
		"KeyMismatch":            stalled,
		"NotACA":                 stalled,
		"PathLengthTooShort":     stalled,
		"SubjectMismatch":        stalled,
		"CertificateExpired":     stalled,
		"WeakCertificate":        stalled,
		"ChainIncomplete":        stalled,
		"ChainNotVerified":       stalled,
		"ExpiresTooSoon":         stalled,
	}
}
