package fields_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/api/fields"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

type resource struct {
	Spec   *spec          `json:"spec,omitempty"`
	Status map[string]int `json:"status,omitempty"`
}

type spec struct {
	Size     int             `json:"size,omitempty"`
	Part     *part           `json:"part,omitempty"`
	Parts    []part          `json:"parts,omitempty"`
	Named    map[string]part `json:"named,omitempty"`
	Free     freeForm        `json:"free,omitzero"`
	Hidden   string          `json:"-"`
	embedded `json:",inline"`
}

type part struct {
	Name string `json:"name,omitempty"`
}

type embedded struct {
	Inner string `json:"inner,omitempty"`
}

type freeForm struct{ raw json.RawMessage }

func (f *freeForm) UnmarshalJSON(data []byte) error {
	f.raw = data
	return nil
}

// No list says anything of this resource: what its type does not carry is unknown.
func TestFieldsOfTypesAreKnown(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		manifest string
		want     []string
	}{
		"an object without spec has none":           {manifest: `{"status": {"a": 1}}`},
		"a spec that is null has none":              {manifest: `{"spec": null}`},
		"known fields are none, empty ones too":     {manifest: `{"spec": {"size": 0, "part": {}, "parts": [], "named": {}}}`},
		"fields outside of spec are not looked at":  {manifest: `{"spec": {}, "status": {"b": {}}, "other": 1}`},
		"an embedded field is known":                {manifest: `{"spec": {"inner": "a"}}`},
		"a free-form field has none inside":         {manifest: `{"spec": {"free": {"any": {"thing": 1}}}}`},
		"a field that is null is absent":            {manifest: `{"spec": {"other": null, "part": {"other": null}}}`},
		"names are compared with their case":        {manifest: `{"spec": {"Size": 1}}`, want: []string{"spec.Size"}},
		"a field that JSON does not carry":          {manifest: `{"spec": {"Hidden": "a", "-": "b"}}`, want: []string{"spec.-", "spec.Hidden"}},
		"of an unknown subtree only the root":       {manifest: `{"spec": {"other": {"a": {"b": 1}}}}`, want: []string{"spec.other"}},
		"inside of objects, lists and maps, sorted": {manifest: `{"spec": {"z": 1, "part": {"x": 1}, "parts": [{}, {"x": 1}], "named": {"n": {"x": 1}}}}`, want: []string{"spec.named.n.x", "spec.part.x", "spec.parts[1].x", "spec.z"}},
		"a value of another form than its field":    {manifest: `{"spec": {"size": {"a": 1}, "part": [1], "parts": {"a": 1}}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var object map[string]any
			if err := json.Unmarshal([]byte(test.manifest), &object); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fields.Found{Unknown: test.want}, fields.InSpec[resource](object)); diff != "" {
				t.Errorf("paths differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFieldsWithoutEffectAreToldFromUnknownOnes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		manifest string
		want     fields.Found
	}{
		"a field that is acted on":                                {manifest: `{"kafka": {"listeners": [{"name": "a"}]}}`},
		"a field of Keyturn's own":                                {manifest: `{"clusterCa": {"keyAlgorithm": "RSA"}}`},
		"an issuer of cert-manager":                               {manifest: `{"clientsCa": {"type": "cert-manager.io", "certManager": {"issuerRef": {"name": "a", "kind": "b", "group": "c"}, "caCert": {"secretName": "a", "certificate": "b"}}}}`},
		"a field that an earlier proposal had":                    {manifest: `{"clusterCa": {"publicCert": {}, "certManagerIssuerRef": {}}}`, want: fields.Found{Unknown: []string{"spec.clusterCa.certManagerIssuerRef", "spec.clusterCa.publicCert"}}},
		"a property of Kafka":                                     {manifest: `{"kafka": {"config": {"any.name": {"a": 1}}}}`},
		"a probe, which Keyturn has its own of":                   {manifest: `{"kafka": {"livenessProbe": {"timeoutSeconds": 5}}}`, want: fields.Found{WithoutEffect: []string{"spec.kafka.livenessProbe"}}},
		"a field of a list in a list that is unmet":               {manifest: `{"entityOperator": {"template": {"pod": {"volumes": [{"name": "a"}]}}}}`, want: fields.Found{Unmet: []string{"spec.entityOperator.template.pod.volumes"}}},
		"of a subtree without effect only the root":               {manifest: `{"cruiseControl": {"brokerCapacity": {"inboundNetwork": "a"}}}`, want: fields.Found{Unmet: []string{"spec.cruiseControl"}}},
		"a field without effect in a list":                        {manifest: `{"kafka": {"listeners": [{}, {"configuration": {"bootstrap": {"annotations": {"any": "a"}}}}]}}`, want: fields.Found{Unmet: []string{"spec.kafka.listeners[1].configuration.bootstrap"}}},
		"a field that is acted on in a list of a list":            {manifest: `{"kafka": {"listeners": [{"networkPolicyPeers": [{"podSelector": {"matchLabels": {"any": "a"}}}]}]}}`},
		"a misspelled field of a peer":                            {manifest: `{"kafka": {"listeners": [{"networkPolicyPeers": [{"podSelektor": {}}]}]}}`, want: fields.Found{Unknown: []string{"spec.kafka.listeners[0].networkPolicyPeers[0].podSelektor"}}},
		"a misspelled field of a listener":                        {manifest: `{"kafka": {"listeners": [{"authentification": {"type": "tls"}}]}}`, want: fields.Found{Unknown: []string{"spec.kafka.listeners[0].authentification"}}},
		"a misspelled field below one without effect":             {manifest: `{"cruiseControl": {"brokerCapasity": {}}}`, want: fields.Found{Unmet: []string{"spec.cruiseControl"}, Unknown: []string{"spec.cruiseControl.brokerCapasity"}}},
		"a misspelled field in a list without effect":             {manifest: `{"kafka": {"template": {"pod": {"tolerations": [{"keys": "a"}]}}}}`, want: fields.Found{Unmet: []string{"spec.kafka.template.pod.tolerations"}, Unknown: []string{"spec.kafka.template.pod.tolerations[0].keys"}}},
		"a field with effect in a template without any otherwise": {manifest: `{"kafka": {"template": {"pod": {"imagePullSecrets": [{"name": "a"}]}, "podSet": {}}}}`, want: fields.Found{Unmet: []string{"spec.kafka.template.podSet"}}},
		"a field at the wrong place":                              {manifest: `{"listeners": []}`, want: fields.Found{Unknown: []string{"spec.listeners"}}},
		"a field that an older version had, kept as a whole":      {manifest: `{"zookeeper": {"replicas": 3, "any": {"thing": [1]}}}`, want: fields.Found{WithoutEffect: []string{"spec.zookeeper"}}},
		"a field without effect that is null is absent":           {manifest: `{"cruiseControl": null}`},
		"a value of another form than its field":                  {manifest: `{"cruiseControl": [{"a": 1}], "kafka": {"rack": {"topologyKey": {"a": 1}}}}`, want: fields.Found{Unmet: []string{"spec.cruiseControl", "spec.kafka.rack"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var spec any
			if err := json.Unmarshal([]byte(test.manifest), &spec); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, fields.InSpec[kafkav1.Kafka](map[string]any{"spec": spec})); diff != "" {
				t.Errorf("found differs (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever people write into a manifest, looking for unknown fields must not panic.
func FuzzInSpec(f *testing.F) {
	f.Add([]byte(`{"spec": {"part": {"x": [null, {}]}, "parts": [[1], "a"], "named": {"n": null}}}`))
	f.Add([]byte(`{"spec": []}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var object map[string]any
		if json.Unmarshal(data, &object) != nil {
			t.Skip()
		}
		fields.InSpec[resource](object)
		fields.InSpec[kafkav1.Kafka](object)
		fields.InSpec[kafkav1.KafkaNodePool](object)
	})
}
