// Spelling of every metric and attribute in storage, generated from the registry by `glideslope render`.
// An unknown name fails the render: `names.metrics['train.lss']` is "field does not exist".
import 'names.json'
