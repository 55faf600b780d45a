// Links between the dashboards; time range and variables travel along.
function(config, uid) [
  {
    title: page.title,
    type: 'link',
    url: '/d/%s' % page.uid,
    tooltip: page.about,
    icon: 'dashboard',
    tags: [],
    asDropdown: false,
    includeVars: true,
    keepTime: true,
    targetBlank: false,
  }
  for page in config.pages
  if page.uid != uid
]
