package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	authorizerClass = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
	scramMechanism  = "SCRAM-SHA-512"
	scramJaas       = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
)

// principalMapping denies clients the names of super users, the DNs with O=io.strimzi. The replication
// listener accepts these DNs, because the cluster CA issues the certificates there. Client listeners may trust
// a CA of a user or of cert-manager, so they map these DNs to a reserved principal without permissions.
//
// Every other DN is unchanged, so CN=<user> stays User:CN=<user>. Kafka matches the RFC 2253 form, in
// which commas and pluses inside a value are escaped, and here both separate attributes. The connection
// is not rejected: a principal appears in logs and ACLs, a failed mapping only as a broken connection. With the
// certificate of the operator, Kafka 4.3.1 lets a topic be created on the replication listener alone.
const principalMapping = `RULE:(?is)^((?:.*[,+])?O=io\.strimzi(?:[,+].*)?)$/reserved:$1/,DEFAULT`

// Voter is a controller as controller.quorum.voters names it.
type Voter struct {
	ID   NodeID
	Host string
	Port int32
}

// Voters are the controllers of the static quorum, sorted by id.
func (c Cluster) Voters() []Voter {
	controllers := c.Controllers()
	voters := make([]Voter, 0, len(controllers))
	for _, node := range controllers {
		voters = append(voters, Voter{ID: node.ID, Host: c.Names.PodHost(node.Pod), Port: ControlPlanePort})
	}
	return voters
}

// ServerConfig is the configuration of a node without any key or trust store;
// those are added by the agent.
func (c Cluster) ServerConfig(node Node) Properties {
	properties := maps.Clone(c.config)
	maps.Copy(properties, c.identityProperties(node))
	maps.Copy(properties, c.networkProperties(node))
	maps.Copy(properties, c.storageProperties(node))
	maps.Copy(properties, c.authorizationProperties())
	return properties
}

func (c Cluster) identityProperties(node Node) Properties {
	voters := c.Voters()
	texts := make([]string, 0, len(voters))
	for _, voter := range voters {
		texts = append(texts, voter.ID.String()+"@"+voter.Host+":"+strconv.Itoa(int(voter.Port)))
	}
	return Properties{
		"node.id":                   node.ID.String(),
		"process.roles":             strings.Join(node.Roles.List(), ","),
		"controller.listener.names": controlPlaneID,
		"controller.quorum.voters":  strings.Join(texts, ","),
	}
}

// networkProperties configure the listeners of a node. A listener that a node
// does not have is not configured on it, except the control plane, which is the
// identity of every node's Raft client.
func (c Cluster) networkProperties(node Node) Properties {
	host := c.AdvertisedHost(node)
	listeners, advertised := []string{}, []string{}
	add := func(id string, port int32) {
		text := strconv.FormatInt(int64(port), 10)
		listeners = append(listeners, id+"://0.0.0.0:"+text)
		advertised = append(advertised, id+"://"+host+":"+text)
	}
	protocols := []string{controlPlaneID + ":SSL"}
	properties := Properties{
		"sasl.enabled.mechanisms":               "",
		"ssl.endpoint.identification.algorithm": "HTTPS",
	}
	maps.Copy(properties, internalListenerProperties(string(ControlPlaneListener)))
	if node.Roles.Controller {
		add(controlPlaneID, ControlPlanePort)
	}
	if node.Roles.Broker {
		add(replicationID, ReplicationPort)
		protocols = append(protocols, replicationID+":SSL")
		properties["inter.broker.listener.name"] = replicationID
		maps.Copy(properties, internalListenerProperties(string(ReplicationListener)))
		for _, listener := range c.Listeners {
			add(listener.ID(), listener.Port)
			protocols = append(protocols, listener.ID()+":"+listener.protocol())
			maps.Copy(properties, listener.properties())
		}
	}
	properties["listeners"] = strings.Join(listeners, ",")
	properties["advertised.listeners"] = strings.Join(advertised, ",")
	properties["listener.security.protocol.map"] = strings.Join(protocols, ",")
	return properties
}

// internalListenerProperties configure a listener between nodes: always mutual
// TLS.
func internalListenerProperties(key string) Properties {
	properties := tlsProperties(key)
	properties["listener.name."+key+".ssl.client.auth"] = "required"
	return properties
}

// tlsProperties let the stores of a listener be replaced while Kafka runs: by
// certificates with another subject or other names.
func tlsProperties(key string) Properties {
	prefix := "listener.name." + key + ".ssl."
	return Properties{
		prefix + "allow.dn.changes":                  textTrue,
		prefix + "allow.san.changes":                 textTrue,
		prefix + "endpoint.identification.algorithm": "HTTPS",
	}
}

// properties configure a listener of the user's.
func (l Listener) properties() Properties {
	properties := Properties{}
	prefix := "listener.name." + string(l.Key()) + "."
	if l.TLS {
		properties = tlsProperties(string(l.Key()))
		properties[prefix+"ssl.client.auth"] = "none"
		properties[prefix+"ssl.principal.mapping.rules"] = principalMapping
	}
	switch l.Authentication {
	case TLSAuthentication:
		properties[prefix+"ssl.client.auth"] = "required"
	case SCRAMAuthentication:
		properties[prefix+"sasl.enabled.mechanisms"] = scramMechanism
		properties[prefix+"scram-sha-512.sasl.jaas.config"] = scramJaas
	case NoAuthentication:
	}
	return properties
}

// storageProperties name the log directories.
func (c Cluster) storageProperties(node Node) Properties {
	pool, _ := c.Pool(node.Pool)
	dirs := make([]string, 0, len(pool.Volumes))
	properties := Properties{}
	for _, volume := range pool.Volumes {
		dirs = append(dirs, volume.LogDir(node.ID))
		if volume.Metadata {
			properties["metadata.log.dir"] = volume.LogDir(node.ID)
		}
	}
	properties["log.dirs"] = strings.Join(dirs, ",")
	return properties
}

// authorizationProperties configure Kafka's own authorizer. The super users are
// those of Strimzi, so that the operators of users and topics, the exporter and
// Cruise Control work with their certificates.
func (c Cluster) authorizationProperties() Properties {
	if !c.authorization.enabled {
		return Properties{}
	}
	machinery := []string{
		c.CommonName(),
		c.Names.TopicOperator(),
		c.Names.UserOperator(),
		c.Names.Cluster + "-kafka-exporter",
		c.Names.Cluster + "-cruise-control",
		"cluster-operator",
	}
	users := make([]string, 0, len(machinery)+len(c.authorization.superUsers))
	for _, name := range machinery {
		users = append(users, "User:CN="+name+",O="+Organization)
	}
	for _, user := range c.authorization.superUsers {
		users = append(users, "User:"+user)
	}
	return Properties{
		"authorizer.class.name": authorizerClass,
		"super.users":           strings.Join(users, ";"),
	}
}

// ParseVoters reads the ids of the static quorum from the configuration of a
// node, for Known.Voters. The result is sorted, and empty when the configuration
// names no voters.
func ParseVoters(serverConfig string) ([]NodeID, error) {
	properties, err := ParseProperties(serverConfig)
	if err != nil {
		return nil, err
	}
	ids := []NodeID{}
	text := properties["controller.quorum.voters"]
	if text == "" {
		return ids, nil
	}
	for voter := range strings.SplitSeq(text, ",") {
		id, _, _ := strings.Cut(voter, "@")
		parsed, err := parseID(id)
		if err != nil {
			return nil, err
		}
		ids = append(ids, parsed)
	}
	slices.Sort(ids)
	return ids, nil
}
