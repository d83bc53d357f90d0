"""Messages to chats: Slack, Teams, Discord, Mattermost, and web hooks that take a text."""
