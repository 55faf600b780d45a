// Exceptions for single fields of a panel. `properties` is {id: value}, for example {'custom.width': 120}.
{
  local override = self,

  of(matcher, properties):: {
    matcher: matcher,
    properties: [{ id: id, value: properties[id] } for id in std.objectFields(properties)],
  },

  named(name, properties):: override.of({ id: 'byName', options: name }, properties),
  matching(regex, properties):: override.of({ id: 'byRegexp', options: regex }, properties),
  query(refId, properties):: override.of({ id: 'byFrameRefID', options: refId }, properties),

  colored(name, color):: override.named(name, { color: { mode: 'fixed', fixedColor: color } }),
}
