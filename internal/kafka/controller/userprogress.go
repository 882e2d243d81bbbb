package controller

import (
	"fmt"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// The condition about the certificates of KafkaUsers. It is there while a user operator counts any.
const (
	conditionUserCertificatesCurrent condition.Type = "UserCertificatesCurrent"
	reasonCurrent                    string         = "Current"
	reasonReissuing                  string         = "Reissuing"
)

// userProgress is what the user operator has counted, as a condition.
func userProgress(users *kafkav1.UsersStatus) []wanted {
	if users == nil || users.Total == 0 {
		return nil
	}
	if waiting := users.Total - users.Reissued; waiting > 0 {
		w := holds(conditionUserCertificatesCurrent, reasonReissuing, fmt.Sprintf(
			"%d of %d KafkaUsers wait for a certificate of the clients CA in use; their previous certificates are accepted meanwhile. "+
				"If the number does not fall, see the log of the user operator.", waiting, users.Total))
		w.status = condition.False
		return []wanted{w}
	}
	return []wanted{holds(conditionUserCertificatesCurrent, reasonCurrent,
		fmt.Sprintf("The certificates of all %d KafkaUsers are of the clients CA in use.", users.Total))}
}
